"""The application's life: it connects when it starts or is first asked, and closes only what is its own."""

import pytest
from fastapi import FastAPI

from sojourn.asgi import create_app
from sojourn.network import http_client
from tests.http.conftest import listening


@pytest.fixture
def settings(monkeypatch, temporal_address):
    """The standard settings of a client."""
    monkeypatch.setenv("TEMPORAL_ADDRESS", temporal_address)


async def test_a_started_application_is_connected_until_it_ends(shop, settings):
    """It connects at its start, by the standard settings, and is closed at its end."""
    web = create_app(shop.app)
    service = web.state.service
    async with listening(web) as url, http_client(base_url=url) as http:
        assert service.client
        assert (await http.get("/v1/runs", params={"limit": 1})).status_code == 200
    with pytest.raises(AssertionError):
        _ = service.client


async def test_a_mounted_application_connects_with_the_first_request(shop, settings):
    """Where nobody starts it, it answers all the same."""
    api, web = create_app(shop.app), FastAPI()
    web.mount("/agents", api)
    async with listening(web) as url, http_client(base_url=url) as http:
        assert (await http.get("/agents/v1/runs", params={"limit": 1})).status_code == 200
    await api.state.service.close()


async def test_the_lifespan_of_a_mounted_application_can_be_that_of_the_whole(shop, settings):
    """Given its lifespan, the whole connects at its start."""
    api = create_app(shop.app)
    web = FastAPI(lifespan=api.router.lifespan_context)
    web.mount("/agents", api)
    async with listening(web):
        assert api.state.service.client


async def test_a_client_that_is_given_is_not_closed(serve, shop):
    """It is the caller's, and serves the next application too."""
    client = await serve(shop.app)
    for _ in range(2):
        web = create_app(shop.app, client=client, prefix="/x")
        async with listening(web) as url, http_client(base_url=url) as http:
            answer = await http.post("/x/v1/runs", json={"agent_id": "shop.clerk", "input": "hello"})
            assert answer.status_code == 201
            run_id = answer.json()["run_id"]
            outcome = await http.get(f"/x/v1/runs/{run_id}/output", params={"wait": 30})
            assert outcome.json()["output"]["text"] == "hello"

"""docs/storage.md: its program keeps a large result in a bucket of S3."""

import aioboto3
from moto.server import ThreadedMotoServer

from sojourn.checks.application import check_storage


async def test_the_program_of_the_page(serve, module_of, monkeypatch):
    """The app stores an export in S3, a client reads it, and `doctor` prints the line of the page."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.setenv(name, "testing")
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        async with aioboto3.Session().client("s3") as s3:
            await s3.create_bucket(Bucket="shop-runs")
        page = module_of("storage.md", "shop")
        client = await serve(page.app, storage=page.storage)
        orders = await page.orders(client)
        assert (len(orders), orders[-1]) == (50_000, "order 49999: one lamp, blue, paid")
        check = await check_storage(page.app)
        assert (check.ok, check.found) == (True, "S3Storage 'aws.s3driver' keeps what it is given")
    finally:
        server.stop()

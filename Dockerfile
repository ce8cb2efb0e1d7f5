# A worker of the reference deployment, and its HTTP service by another command. The library is installed from its wheel; the app (worker.py,
# toolsets, planners) lies beside it.
ARG PYTHON=3.13.7-slim-bookworm

FROM python:${PYTHON} AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
# Everything is downloaded once, by its hash. What follows installs from this folder alone.
COPY constraints.txt ./
RUN pip download --quiet --require-hashes --no-deps --requirement constraints.txt --dest /wheels
COPY . .
RUN pip wheel --quiet --no-index --find-links /wheels --no-deps --wheel-dir /wheels . \
    && python -m venv /opt/sojourn \
    && /opt/sojourn/bin/pip install --quiet --no-index --find-links /wheels 'sojourn[crypto,http,mcp,models,otlp,pictures,redis]'

FROM python:${PYTHON}
ENV PATH=/opt/sojourn/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
# The database of the reference toolsets; the library itself keeps no files. In /keys is who has a key to the HTTP service.
ENV SOJOURN_OPS_DB=/data/ops.db
RUN useradd --system --uid 10001 --no-create-home sojourn \
    && install --directory --owner sojourn /data \
    && install --directory --owner sojourn --mode 0700 /keys
COPY --from=build /opt/sojourn /opt/sojourn
WORKDIR /app
COPY worker.py ./
COPY toolsets ./toolsets
COPY planners ./planners
USER sojourn
# Whether the Temporal service answers from here. `_exit`: an interpreter that ends with a connection open may crash.
HEALTHCHECK --interval=60s --timeout=20s --start-period=30s \
    CMD ["python", "-c", "import asyncio, os, sojourn; asyncio.run(sojourn.Client.connect()); os._exit(0)"]
# Ends on SIGTERM after the calls in flight are done.
CMD ["sojourn", "worker", "worker:app"]

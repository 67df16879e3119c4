# The serving image: Python, the server's locked dependencies, the server, the shipped bundles. No torch, no onnx, no pip.
#   docker build --tag dragoman .                        CPU
#   docker build --tag dragoman:gpu --build-arg RUNTIME=gpu .   CUDA (run it with --gpus all)
ARG PYTHON_IMAGE=python:3.12-slim

FROM ${PYTHON_IMAGE} AS build
ARG RUNTIME=cpu
# For a package index of your own; empty means pip's default.
ARG PIP_INDEX_URL
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /source
# Dependencies change less often than the sources: a layer of their own. Wheels only, each checked by its hash.
COPY deploy/requirements/ deploy/requirements/
RUN python -m venv --without-pip /opt/dragoman \
 && python -m pip install --require-hashes --only-binary :all: --requirement deploy/requirements/build.txt \
 && python -m pip --python /opt/dragoman/bin/python install --no-compile \
      --require-hashes --only-binary :all: --requirement "deploy/requirements/${RUNTIME}.txt"
COPY pyproject.toml README.md LICENSE dragoman.py ./
COPY model/ model/
COPY export/ export/
COPY server/ server/
COPY loadgen/ loadgen/
RUN python -m pip wheel --no-deps --no-build-isolation --wheel-dir /wheels . \
 && python -m pip --python /opt/dragoman/bin/python install --no-compile --no-deps --no-index /wheels/*.whl \
 && /opt/dragoman/bin/python -m compileall -q /opt/dragoman/lib

FROM ${PYTHON_IMAGE}
ARG COMMIT=unknown
# The interpreter's own pip would be the only way to install anything here.
RUN python -m pip uninstall --yes pip \
 && rm -rf /usr/local/lib/python3.12/ensurepip \
 && groupadd --gid 10001 dragoman \
 && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin dragoman \
 && install --directory --owner 10001 --group 10001 --mode 700 /var/cache/dragoman
COPY --from=build /opt/dragoman /opt/dragoman
COPY bundles /bundles
ENV PATH=/opt/dragoman/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    ORT_DISABLE_TELEMETRY=1 \
    DRAGOMAN_BUNDLE=/bundles \
    DRAGOMAN_WEIGHTS_CACHE=/var/cache/dragoman \
    DRAGOMAN_HOST=0.0.0.0 \
    DRAGOMAN_PORT=8000 \
    DRAGOMAN_COMMIT=${COMMIT}
USER 10001:10001
WORKDIR /
EXPOSE 8000
STOPSIGNAL SIGTERM
# urlopen raises on 503, so the exit status is the answer. A slim image has no curl.
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s --retries=3 \
  CMD ["python", "-c", "import os, urllib.request; urllib.request.urlopen('http://127.0.0.1:' + os.environ['DRAGOMAN_PORT'] + '/readyz', timeout=2)"]
ENTRYPOINT ["dragoman"]
CMD ["serve"]

# syntax=docker/dockerfile:1
# One image for every service of docker-compose.yml that is ours: MLflow, Ray and the job.
#
#   docker build -t tabsweep .                          for CPUs (the default)
#   docker build -t tabsweep:cuda --build-arg DEVICE=cuda .
#
# Which torch is installed, pip decides from the index that it asks: TORCH_INDEX_URL adds one, such as
# the address that PyTorch's installation page gives for CPU-only wheels, which are much smaller than
# the ones with CUDA, or for one version of CUDA. All satisfy the pin in requirements.lock; without
# it, pip's own index gives wheels with CUDA, which run on CPUs too. DEVICE says what the container
# asks NVIDIA's runtime for.
ARG PYTHON_IMAGE=python:3.11-slim-bookworm
ARG DEVICE=cpu

FROM ${PYTHON_IMAGE} AS build
ARG TORCH_INDEX_URL=""
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv /opt/tabsweep
WORKDIR /src
COPY requirements.lock .
RUN /opt/tabsweep/bin/pip install ${TORCH_INDEX_URL:+--extra-index-url "${TORCH_INDEX_URL}"} \
        --requirement requirements.lock
COPY . .
RUN /opt/tabsweep/bin/pip install --no-deps --no-build-isolation --no-index .

FROM ${PYTHON_IMAGE} AS cpu
# LightGBM needs the system's OpenMP; tini passes signals on and reaps what Ray leaves.
RUN apt-get update \
    && apt-get install --no-install-recommends --yes libgomp1 tini \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --create-home --shell /usr/sbin/nologin tabsweep \
    && install --directory --owner=tabsweep --group=tabsweep /runs /cache /artifacts
COPY --from=build /opt/tabsweep /opt/tabsweep
ENV PATH=/opt/tabsweep/bin:${PATH} \
    PYTHONUNBUFFERED=1 \
    GIT_PYTHON_REFRESH=quiet \
    MLFLOW_DISABLE_TELEMETRY=true \
    RAY_USAGE_STATS_ENABLED=0 \
    TABSWEEP_CACHE=/cache \
    TABSWEEP_DATA=/cache/datasets \
    TABSWEEP_RUNS=/runs
USER tabsweep
WORKDIR /home/tabsweep

# The driver's libraries come from the host, through NVIDIA's container runtime.
FROM cpu AS cuda
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility

FROM ${DEVICE}
# Whether the program starts; a service of docker-compose.yml replaces this by a check of its own.
HEALTHCHECK --interval=60s --timeout=20s --start-period=10s CMD ["bench", "--version"]
ENTRYPOINT ["tini", "--"]
CMD ["bench", "--help"]

# One image for every service of docker-compose.yml that is ours: MLflow, Ray and the job.
#
#   docker build -t tabsweep --build-arg COMMIT="$(git describe --always --dirty --abbrev=12)" .
#   docker build -t tabsweep:cuda --build-arg DEVICE=cuda --build-arg COMMIT=... .
#
# cpu (the default) has torch for CPUs alone, from PyTorch's index of such wheels, and no library for
# GPUs; cuda has the wheels of pip's own index, with CUDA. TORCH_INDEX_URL names another index, such as
# that of one version of CUDA; "none" adds no index. Every version is the one in requirements.lock;
# tools for development (deploy/image/development.txt) stay outside.
#
# pip reads /etc/pip.conf; where it needs a configuration of yours (a mirror, a certificate), give it
# for the build alone: --secret id=pip,src=pip.conf. It is in no layer.
ARG PYTHON_IMAGE=python:3.11-slim-bookworm
ARG DEVICE=cpu

# LightGBM needs the system's OpenMP; tini passes signals on and reaps what Ray leaves.
FROM ${PYTHON_IMAGE} AS base
RUN apt-get update \
    && apt-get install --no-install-recommends --yes libgomp1 tini \
    && rm -rf /var/lib/apt/lists/*

FROM base AS build
ARG DEVICE
ARG TORCH_INDEX_URL=""
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python3 -m venv /opt/tabsweep
WORKDIR /src
COPY requirements.lock deploy/image/install.sh deploy/image/development.txt ./
RUN --mount=type=secret,id=pip,target=/etc/pip.conf \
    sh install.sh "${DEVICE}" "${TORCH_INDEX_URL}"
COPY . .
RUN /opt/tabsweep/bin/pip install --no-deps --no-build-isolation --no-index . \
    && sh deploy/image/trim.sh

FROM base
RUN useradd --uid 10001 --create-home --shell /usr/sbin/nologin tabsweep \
    && install --directory --owner=tabsweep --group=tabsweep /runs /cache /artifacts
COPY --from=build /opt/tabsweep /opt/tabsweep
COPY --chmod=755 deploy/image/start-ray.sh /opt/tabsweep/bin/start-ray
COPY --chmod=755 deploy/image/healthy.py /opt/tabsweep/bin/healthy
ENV PATH=/opt/tabsweep/bin:${PATH} \
    PYTHONUNBUFFERED=1 \
    GIT_PYTHON_REFRESH=quiet \
    MLFLOW_DISABLE_TELEMETRY=true \
    RAY_USAGE_STATS_ENABLED=0 \
    TABSWEEP_CACHE=/cache \
    TABSWEEP_DATA=/cache/datasets \
    TABSWEEP_RUNS=/runs
# For the image with CUDA: NVIDIA's container runtime gives these parts of the host's driver.
ENV NVIDIA_DRIVER_CAPABILITIES=compute,utility
USER tabsweep
WORKDIR /home/tabsweep

# The state of the source, which reports name; a checkout's .git is not in the image.
ARG COMMIT=""
LABEL org.opencontainers.image.title=tabsweep org.opencontainers.image.revision=${COMMIT}
ENV TABSWEEP_COMMIT=${COMMIT}
# Whether the program starts; a service of docker-compose.yml replaces this by a check of its own.
HEALTHCHECK --interval=60s --timeout=20s --start-period=10s CMD ["bench", "--version"]
ENTRYPOINT ["tini", "--"]
CMD ["bench", "--help"]

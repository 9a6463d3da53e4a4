# The program with all that it opens at run time, for machines with an NVIDIA GPU and
# without: docker build -t scalewm .
FROM golang:1.26.8-bookworm AS build
RUN apt-get -qq update && apt-get -qq install -y --no-install-recommends python3 python3-pip
WORKDIR /src
COPY . .
RUN make cuda

FROM debian:bookworm-slim
# Data sets; OpenGL in software, which draws Reacher and Cube.
RUN apt-get -qq update && apt-get -qq install -y --no-install-recommends \
      libhdf5-103-1 libdeflate0 \
      libegl1 libgl1-mesa-dri \
 && rm -rf /var/lib/apt/lists/*
# The program looks for what was fetched beside the manifest, at or above its own folder.
COPY --from=build /src/bin/scalewm-cuda /opt/scalewm/scalewm
COPY --from=build /src/third_party/manifest.toml /opt/scalewm/third_party/
COPY --from=build /src/third_party/fetched/mujoco /opt/scalewm/third_party/fetched/mujoco
COPY --from=build /src/third_party/fetched/ogbench /opt/scalewm/third_party/fetched/ogbench
RUN ln -s /opt/scalewm/scalewm /usr/local/bin/scalewm && scalewm tasks
# What NVIDIA's container runtime brings in.
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
CMD ["scalewm", "doctor"]

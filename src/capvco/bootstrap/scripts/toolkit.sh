#!/bin/bash
# NVIDIA's container toolkit, from NVIDIA's repository or a mirror of it.
#
# CAPVCO_TOOLKIT_KEY      URL or file of the repository's key
# CAPVCO_TOOLKIT_PACKAGES URL of the packages, as in the sources list
# CAPVCO_TOOLKIT_LIST     the whole line of the sources list, where the layout is another one
# CAPVCO_TOOLKIT_VERSION  one version for all packages; the newest if empty
set -u
STEP=toolkit
# shellcheck source=src/capvco/bootstrap/scripts/gpu.sh
. "$(dirname "$(readlink -f "$0")")/gpu.sh"
load_settings
KEY=${CAPVCO_TOOLKIT_KEY:-https://nvidia.github.io/libnvidia-container/gpgkey}
PACKAGES=${CAPVCO_TOOLKIT_PACKAGES:-https://nvidia.github.io/libnvidia-container/stable/deb}
VERSION=${CAPVCO_TOOLKIT_VERSION:-}
REPOSITORY=nvidia-container-toolkit
LIST=$ROOT/etc/apt/sources.list.d/$REPOSITORY.list

names() {
  local name
  for name in nvidia-container-toolkit nvidia-container-toolkit-base libnvidia-container-tools \
    libnvidia-container1; do
    printf '%s\n' "$name${VERSION:+=$VERSION}"
  done
}

if has nvidia-ctk && has nvidia-container-runtime; then
  say "the container toolkit is there: nothing is installed"
  exit 0
fi
retire_lists "$LIST" 'nvidia\.github\.io/(libnvidia-container|nvidia-docker|nvidia-container-runtime)'
# shellcheck disable=SC2016 # apt itself replaces $(ARCH)
add_repository "$REPOSITORY" "$KEY" CAPVCO_TOOLKIT_KEY "$PACKAGES/"'$(ARCH) /' \
  "${CAPVCO_TOOLKIT_LIST:-}"
mapfile -t wanted < <(names)
install_packages "$PACKAGES" "${wanted[@]}"
hold_packages
has nvidia-ctk || fail InstallFailed "the container toolkit is installed and brought no nvidia-ctk"

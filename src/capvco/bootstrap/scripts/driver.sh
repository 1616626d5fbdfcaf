#!/bin/bash
# The driver branch that was asked for, with a module for the running kernel, loaded.
set -u
STEP=driver
# shellcheck source=src/capvco/bootstrap/scripts/gpu.sh
. "$(dirname "$(readlink -f "$0")")/gpu.sh"
load_settings
PACKAGE=nvidia-driver-$BRANCH-server$OPEN
KERNEL=$(uname -r)

present() {
  [[ -n $(loaded_version) ]] && has nvidia-smi && quietly nvidia-smi -L
}

# Retired branches forward to newer ones, and a module must fit the user space that really comes.
resolved_branch() {
  local found
  found=$(apt install -s --no-install-recommends "$PACKAGE" 2>/dev/null </dev/null |
    sed -nE 's/^Inst nvidia-(kernel-common|dkms)-([0-9]+)-server.*/\2/p' | sort -n | tail -n 1)
  printf '%s' "${found:-$BRANCH}"
}

known_package() {
  apt-cache show "$1" 2>/dev/null | grep -q '^Package:'
}

check_branch() {
  local known
  # Always: a list that the image brought may not know where a branch forwards to by now.
  refreshed || retry "reading the package lists of $ARCHIVE" refreshed
  if ! known_package "$PACKAGE"; then
    known=$(apt-cache search --names-only '^nvidia-driver-[0-9]+-server(-open)?$' |
      sed -E 's/^nvidia-driver-([0-9]+)-server(-open)? .*/\1\2/' | sort -u | paste -sd ' ')
    if [[ -z $known ]]; then
      fail RepositoryUnreachable "$ARCHIVE shows no NVIDIA driver at all: see that the node reaches" \
        "it (the component restricted included), or set a mirror"
    fi
    fail BranchUnknown "$ARCHIVE has no $PACKAGE; branches it has: $known"
  fi
}

refreshed() {
  quietly apt update
  known_package "$PACKAGE"
}

# Modules that are built and signed already come first; else headers, to build them.
module_packages() {
  local prebuilt
  prebuilt=linux-modules-nvidia-$(resolved_branch)-server$OPEN-$KERNEL
  if known_package "$prebuilt"; then
    printf '%s' "$prebuilt"
  elif known_package "linux-headers-$KERNEL"; then
    printf '%s' "linux-headers-$KERNEL"
  fi
}

install_driver() {
  local modules
  modules=$(module_packages)
  if [[ -z $modules ]]; then
    fail NoKernelModule "$ARCHIVE has neither prebuilt modules nor headers for the running kernel" \
      "$KERNEL: use an image with a newer kernel, or bake the driver in"
  fi
  if secure_boot && [[ $modules == linux-headers-* ]]; then
    fail SecureBoot "secure boot is on, and $ARCHIVE has no signed modules of the branch" \
      "$(resolved_branch) for the kernel $KERNEL: choose another branch, or bootType bios"
  fi
  say "installing $PACKAGE with $modules"
  install_packages "$ARCHIVE" "$PACKAGE" "$modules"
  hold_packages
}

check_module() {
  local version
  version=$(modinfo -k "$KERNEL" -F version nvidia 2>>"$LOG") || version=
  if [[ -z $version ]]; then
    tail -n 30 "$ROOT"/var/lib/dkms/nvidia*/*/build/make.log 2>/dev/null >>"$LOG"
    fail NoKernelModule "$PACKAGE is installed and brought no module for the running kernel $KERNEL" \
      "(/var/lib/dkms/nvidia/*/build/make.log says why)"
  fi
}

load_module() {
  local name
  for name in nvidia nvidia-uvm; do
    quietly modprobe "$name" || refused
  done
}

# The kernel's own words decide about the cause.
refused() {
  local said
  said=$(kernel_log | grep -E 'NVRM|nvidia|Lockdown' | tail -n 40)
  printf '%s\n' "$said" >>"$LOG"
  case $said in
    *'BAR1 is 0M'*)
      fail BARUnassigned "NVRM: BAR1 is 0M @ 0x0: the image lacks pci=realloc pci=nocrs on the" \
        "kernel command line; use the GPU base image" ;;
    *'open kernel modules'* | *'open GPU kernel modules'*)
      fail NeedsOpenModules "the card needs the open kernel modules: set driverVersion to" \
        "$BRANCH-open" ;;
    *'Lockdown'* | *'key was rejected'* | *'Key was rejected'* | *'equired key not available'*)
      fail SecureBoot "secure boot refuses the module: it is not signed with a key that this" \
        "machine knows" ;;
    *'Legacy drivers'*)
      fail BranchTooNew "the branch $(resolved_branch) has dropped this card: choose an older" \
        "driverVersion" ;;
  esac
  if [[ -s $SUSPECT ]]; then
    fail ForeignDriverBound "the driver refuses the card, which $(cat "$SUSPECT") held at boot: the" \
      "image does not blacklist it in its initramfs; use the GPU base image"
  fi
  fail DriverRefused "modprobe nvidia failed: the driver does not take the card. Where the platform" \
    "hands out mediated vGPUs (GRID), no driver of $ARCHIVE can: bake NVIDIA's guest driver into" \
    "an image ($(tail -n 1 <<<"$said" | cut -c 1-200))"
}

if present; then
  say "a driver is there and works ($(loaded_version)): nothing is installed"
  exit 0
fi
if ! modinfo -k "$KERNEL" -F version nvidia >/dev/null 2>&1 || ! has nvidia-smi; then
  check_branch
  install_driver
  check_module
fi
load_module

#!/bin/bash
# Can a driver work here at all? What only the image can cure is found before anything is installed.
set -u
STEP=preflight
# shellcheck source=src/capvco/bootstrap/scripts/gpu.sh
. "$(dirname "$(readlink -f "$0")")/gpu.sh"
load_settings

check_count() {
  local found
  found=$(count_cards)
  if ((found == 0)); then
    fail NoCard "no NVIDIA card on the PCI bus (lspci -nn | grep -i nvidia), $COUNT expected: the" \
      "vGPU is not attached to this VM, or its profile is a stub, which takes no driverVersion"
  elif ((found < COUNT)); then
    fail TooFewCards "$found NVIDIA card(s) on the PCI bus (lspci -nn | grep -i nvidia), $COUNT" \
      "expected: a vGPU is not attached to this VM"
  fi
}

# Every NVIDIA card has BAR1, its window to the video memory; one without an address is no use.
check_bar() {
  local card start=
  while read -r card; do
    [[ -r $card/resource ]] || continue
    start=$(awk 'NR == 2 { print $1 }' "$card/resource")
    if [[ $start =~ ^0x0+$ ]]; then
      kernel_log | grep -E "can't assign; no space|not CPU addressable" | tail -n 5 >>"$LOG"
      fail BARUnassigned "BAR1 of ${card##*/} has no address (NVRM: BAR1 is 0M @ 0x0; can't" \
        "assign; no space): $(bar_cure)"
    fi
  done < <(cards_on_bus)
}

bar_cure() {
  local arguments=
  read -r arguments 2>/dev/null <"$ROOT/proc/cmdline" || true
  if [[ " $arguments " == *pci=*realloc* && " $arguments " == *pci=*nocrs* ]]; then
    printf '%s' 'though the kernel was started with pci=realloc pci=nocrs: the card does not fit' \
      ' into the addresses of the guest CPU'
  else
    printf '%s' 'the image lacks pci=realloc pci=nocrs on the kernel command line; use the GPU' \
      ' base image'
  fi
}

# nouveau, or its successor nova_core, must not hold a card. Older cards can be taken from it.
check_foreign_driver() {
  local card driver
  while read -r card; do
    driver=$(bound_driver "$card")
    case $driver in
      '' | nvidia) continue ;;
    esac
    printf '%s' "$driver" >"$SUSPECT"
    say "NOTE: $driver holds ${card##*/}: the image does not blacklist it; trying to unload it"
    quietly modprobe -r "$driver" || true
    driver=$(bound_driver "$card")
    if [[ -n $driver && $driver != nvidia ]]; then
      fail ForeignDriverBound "$driver holds ${card##*/} and cannot be unloaded (nvidia-smi exits" \
        "9, lsmod shows $driver): the image does not blacklist $driver in its initramfs; use the" \
        "GPU base image"
    fi
  done < <(cards_on_bus)
}

blacklist() {
  install_file "$ROOT/etc/modprobe.d/capvco-gpu.conf" <<'EOF' || true
# Too late for this boot, which is why the image must have it in its initramfs.
blacklist nouveau
blacklist nova_core
blacklist nova_drm
options nouveau modeset=0
EOF
}

check_count
check_bar
blacklist
check_foreign_driver
if secure_boot; then
  say "NOTE: secure boot is on: only signed, prebuilt kernel modules can be loaded"
fi

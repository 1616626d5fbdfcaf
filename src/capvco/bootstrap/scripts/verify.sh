#!/bin/bash
# Are all requested cards usable? A Ready node whose GPU nothing can use is worse than none.
set -u
STEP=verify
# shellcheck source=src/capvco/bootstrap/scripts/gpu.sh
. "$(dirname "$(readlink -f "$0")")/gpu.sh"
load_settings

nvidia_smi_meaning() {
  case $1 in
    6) printf 'it found no card' ;;
    9) printf 'the driver is not loaded' ;;
    12) printf 'the library libnvidia-ml is missing' ;;
    18) printf 'driver and library are of different versions' ;;
    127) printf 'it is not installed' ;;
    *) printf 'see the kernel log for NVRM' ;;
  esac
}

check_answers() {
  local status
  nvidia-smi -L >"$STATE/nvidia-smi.out" 2>&1 </dev/null
  status=$?
  cat "$STATE/nvidia-smi.out" >>"$LOG"
  if ((status != 0)); then
    kernel_log | grep -E 'NVRM|nvidia' | tail -n 20 >>"$LOG"
    if [[ $status == 9 && -s $SUSPECT ]]; then
      fail ForeignDriverBound "nvidia-smi -L exits 9, and $(cat "$SUSPECT") held the card at boot:" \
        "the image does not blacklist it in its initramfs; use the GPU base image"
    fi
    if kernel_log | grep -q 'BAR1 is 0M'; then
      fail BARUnassigned "nvidia-smi -L exits $status; NVRM: BAR1 is 0M @ 0x0: the image lacks" \
        "pci=realloc pci=nocrs on the kernel command line; use the GPU base image"
    fi
    fail DriverNotUsable "nvidia-smi -L exits $status: $(nvidia_smi_meaning "$status")" \
      "($(head -n 1 "$STATE/nvidia-smi.out" | cut -c 1-200))"
  fi
}

# Three numbers must agree: asked for, on the bus, shown by the driver.
check_count() {
  local bus visible
  bus=$(count_cards)
  visible=$(count_visible)
  if ((visible < bus || visible < COUNT)); then
    kernel_log | grep -E 'NVRM|nvidia' | tail -n 20 >>"$LOG"
    if kernel_log | grep -qE 'open (GPU )?kernel modules'; then
      fail NeedsOpenModules "the driver shows $visible of $bus card(s) on the bus, $COUNT expected:" \
        "a card needs the open kernel modules: set driverVersion to $BRANCH-open"
    fi
    fail TooFewCards "the driver shows $visible of $bus card(s) on the bus, $COUNT expected: the" \
      "kernel log (NVRM) says why it leaves one out"
  fi
  if ((visible != COUNT)); then
    say "NOTE: $visible cards are usable, and $COUNT expected"
  fi
}

note_branch() {
  local loaded
  loaded=$(loaded_branch)
  if [[ $loaded != "$BRANCH" ]]; then
    say "NOTE: requested NVIDIA driver branch $BRANCH, loaded ${loaded:-unknown}" \
      "($(loaded_version)): a retired branch forwards to a newer one, and an image with a driver" \
      "keeps it; to hold a branch, bake it into an image"
  fi
}

# A guest of a mediated vGPU works at a fraction of its speed without a licence, and says nothing.
note_licence() {
  local licence
  licence=$(nvidia-smi -q 2>/dev/null </dev/null | sed -nE 's/^ *License Status *: *//p' | head -n 1)
  case $licence in
    '' | N/A*) ;;
    Licensed*) say "vGPU licence: $licence" ;;
    *) say "NOTE: vGPU licence: $licence: the work on it is throttled or refused until it has one" ;;
  esac
}

check_answers
note_branch
note_licence
check_count
say "$(count_visible) card(s) usable, driver $(loaded_version)"

#!/bin/bash
# The GPU step: driver, container toolkit, containerd runtime, verification. Run it again at will:
# what is as it should be stays untouched. Exits 0 only if every requested card is usable.
set -u
HERE=$(dirname "$(readlink -f "$0")")
# shellcheck source=src/capvco/bootstrap/scripts/gpu.sh
. "$HERE/gpu.sh"
mkdir -p "$STATE" "$(dirname "$LOG")"
load_settings
rm -f "$FAILURE" "$SUSPECT"

if ! [[ $BRANCH =~ ^[0-9]{3}$ && $OPEN =~ ^(-open)?$ && $COUNT =~ ^[0-9]+$ ]]; then
  STEP=settings fail SettingsInvalid "CAPVCO_GPU_DRIVER is \"$DRIVER\" and CAPVCO_GPU_COUNT is" \
    "\"$COUNT\" in $ROOT/etc/capvco/gpu.env: a branch is three digits, such as 570 or 580-open"
fi
for step in preflight driver toolkit containerd verify; do
  printf '%s' "$step" >"$AT"
  before=$SECONDS
  say "$step: started"
  bash "$HERE/$step.sh" || exit 1
  say "$step: done in $((SECONDS - before)) s"
done

#!/bin/bash
# Entry of runcmd: runs the GPU step within a time limit and keeps its result.
#
# Always exits 0. The commands of runcmd are one script: if another of them has said `set -e`,
# a status of ours would keep the node from joining. The result is one line, in the marker
# /run/capvco/gpu.status, at the end of /var/log/capvco-gpu.log, and on the console.
set -u
HERE=$(dirname "$(readlink -f "$0")")
# shellcheck source=src/capvco/bootstrap/scripts/gpu.sh
. "$HERE/gpu.sh"
umask 022
mkdir -p "$STATE" "$(dirname "$KEPT")" "$(dirname "$LOG")"
load_settings
rm -f "$FAILURE" "$SUSPECT" "$STATUS"

limit=${CAPVCO_GPU_TIMEOUT:-1500}
timeout --kill-after=30 "$limit" bash "$HERE/install.sh"
code=$?

judge "$code" "$limit"
branch=$(loaded_branch)
RESULT+=" branch=${branch:--} cards=$(count_visible) bus=$(count_cards)${WORDS:+: $WORDS}"
keep_result "$RESULT"
say "GPU step: $RESULT"
say "GPU step: took $SECONDS s; status $code; log: $LOG"
exit 0

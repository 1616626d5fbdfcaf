#!/bin/bash
# Builds the disk image of a GPU node, tells what an image lacks (--check), boots one (--boot-test).
# docs/images.md is the guide; `--help` lists the options.
set -euo pipefail
HERE=$(dirname "$(readlink -f "$0")")
NODE_SCRIPTS=$HERE/../src/capvco/bootstrap/scripts
# shellcheck source=image-builder/lib/common.sh
. "$HERE/lib/common.sh"
# shellcheck source=image-builder/lib/options.sh
. "$HERE/lib/options.sh"
# shellcheck source=image-builder/lib/download.sh
. "$HERE/lib/download.sh"
# shellcheck source=image-builder/lib/appliance.sh
. "$HERE/lib/appliance.sh"
# shellcheck source=image-builder/lib/build.sh
. "$HERE/lib/build.sh"
# shellcheck source=image-builder/lib/check.sh
. "$HERE/lib/check.sh"
# shellcheck source=image-builder/lib/boot.sh
. "$HERE/lib/boot.sh"

parse_options "$@"
trap cleanup EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

need_tools
if [[ -n $CHECK ]]; then
  check_image "$CHECK"
  if ((BOOT_TEST)); then boot_test "$CHECK"; fi
  exit "$VERDICT"
fi
build_image
if ((BOOT_TEST)); then boot_test "$OUTPUT"; fi
exit "$VERDICT"

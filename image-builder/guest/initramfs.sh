#!/bin/bash
# The initramfs of every kernel, and GRUB's menu, made anew.
# shellcheck source=image-builder/guest/common.sh
. "$(dirname "$(readlink -f "$0")")/common.sh"

named_by_device() {
  grep -qE '^[[:space:]]*linux.* root=/dev/[a-z]' /boot/grub/grub.cfg
}

SOURCE_DATE_EPOCH=$(epoch)
export SOURCE_DATE_EPOCH
before=no
! named_by_device || before=yes
update-initramfs -u -k all
update-grub
# The root disk has another name here than on a node.
if named_by_device && [[ $before == no ]]; then
  die "update-grub named the root disk by its device, which is another one on a node"
fi
stamp /boot/grub/grub.cfg

#!/bin/bash
# The blacklist and the kernel arguments, as files. initramfs.sh brings them into force.
# shellcheck source=image-builder/guest/common.sh
. "$(dirname "$(readlink -f "$0")")/common.sh"

require() {
  has update-initramfs || die "the image has no update-initramfs (package initramfs-tools): only" \
    "images of the Debian family can be prepared"
  has update-grub || die "the image has no update-grub (packages grub2-common and grub-pc): its boot" \
    "loader is none that this can give kernel arguments to"
  [[ -f /boot/grub/grub.cfg ]] || die "the image has no /boot/grub/grub.cfg: it is not booted by GRUB"
  [[ -n $(newest_kernel) ]] || die "the image has no kernel in /boot"
}

# The partition of a disk that was made larger, and its file system, while mounted. Asked of the
# kernel: libguestfs's names of disks are not always those that are seen in here.
grow() {
  local device
  has growpart || die "the disk was made larger, and the image has no growpart (package" \
    "cloud-guest-utils) to make use of it: give --size of the base's own"
  device=$(readlink -f "/sys/dev/block/$(mountpoint -d /)")
  [[ -r $device/partition ]] || die "the disk was made larger, and the root file system is on no" \
    "partition of its own (${device##*/}): give --size of the base's own"
  growpart "/dev/$(basename "$(dirname "$device")")" "$(cat "$device/partition")"
  resize2fs "/dev/${device##*/}"
}

# blacklist stops loading by alias only; install stops it by name as well.
write_blacklist() {
  cat >"$BLACKLIST" <<'END'
# By CAPVCO's image builder: NVIDIA's driver needs its cards untouched. The initramfs has a copy.
blacklist nouveau
blacklist nova
blacklist nova_core
blacklist nova_drm
options nouveau modeset=0
install nouveau /bin/false
install nova_core /bin/false
install nova_drm /bin/false
END
  stamp "$BLACKLIST"
}

# Appended, in a file of its own, which neither the cloud image's file nor an upgrade replaces.
write_arguments() {
  mkdir -p "$(dirname "$GRUB_PART")"
  cat >"$GRUB_PART" <<'END'
# By CAPVCO's image builder: the large window of a datacenter card must get an address that the
# guest's CPU reaches, whatever the firmware says.
GRUB_CMDLINE_LINUX="${GRUB_CMDLINE_LINUX:+$GRUB_CMDLINE_LINUX }pci=realloc pci=nocrs"
END
  stamp "$GRUB_PART"
}

require
if ((GROW)); then grow; fi
write_blacklist
write_arguments

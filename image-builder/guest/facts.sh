#!/bin/bash
# What the image has of what a GPU node needs: lines of name, need, state, detail, parted by tabs.
# shellcheck source=image-builder/guest/common.sh
. "$(dirname "$(readlink -f "$0")")/common.sh"
set +e

fact() {
  printf '%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$(tr '\t\n' '  ' <<<"$4" | sed 's/ *$//')"
}

# state WORDS: absent if there are none.
state() {
  if [[ -n $1 ]]; then printf ok; else printf absent; fi
}

# The drivers of NVIDIA's cards that a modprobe.d folder does not keep from loading.
not_blacklisted() {
  local name missing=()
  for name in nouveau nova_core nova_drm; do
    cat "$1"/*.conf 2>/dev/null | grep -qE "^[[:space:]]*blacklist[[:space:]]+${name}[[:space:]]*$" ||
      missing+=("$name")
  done
  printf '%s' "${missing[*]}"
}

system() {
  local name
  name=$(sed -nE 's/^PRETTY_NAME="?([^"]*)"?$/\1/p' /etc/os-release 2>/dev/null)
  fact system optional ok "${name:-unknown}, kernel $(newest_kernel)"
}

blacklist() {
  local missing
  missing=$(not_blacklisted /etc/modprobe.d)
  if [[ -z $missing ]]; then
    fact blacklist required ok "$(grep -lE '^blacklist nouveau' /etc/modprobe.d/*.conf | head -n 1)"
  else
    fact blacklist required absent "/etc/modprobe.d does not blacklist $missing"
  fi
}

# modprobe.d counts in early boot only as far as the initramfs has a copy of it.
initramfs() {
  local kernel file folder=$PAYLOAD/unpacked missing
  mkdir -p "$folder"
  mount -t tmpfs tmpfs "$folder" 2>/dev/null
  for kernel in $(kernels); do
    file=/boot/initrd.img-$kernel
    rm -rf "${folder:?}"/*
    if [[ ! -e $file ]]; then
      fact initramfs required absent "there is no $file"
    elif ! has unmkinitramfs; then
      fact initramfs required absent "$file cannot be read: the image has no unmkinitramfs"
    elif ! unmkinitramfs "$file" "$folder/root" 2>"$PAYLOAD/unpack.err"; then
      fact initramfs required absent "$file cannot be read: $(tail -n 1 "$PAYLOAD/unpack.err")"
    else
      # With microcode in front, the main part is a folder below.
      [[ ! -d $folder/root/main ]] || mv "$folder/root/main" "$folder/main"
      [[ -d $folder/main ]] || mv "$folder/root" "$folder/main"
      missing=$(not_blacklisted "$folder/main/etc/modprobe.d")
      if [[ -z $missing ]]; then
        fact initramfs required ok "${file#/boot/} has the blacklist"
      else
        fact initramfs required absent "${file#/boot/} does not blacklist $missing"
      fi
    fi
  done
  [[ -n $(kernels) ]] || fact initramfs required absent "there is no kernel in /boot"
  umount "$folder" 2>/dev/null
  rm -rf "$folder"
}

arguments() {
  local lines without
  lines=$(grep -E '^[[:space:]]*linux(efi)?[[:space:]].*vmlinu' /boot/grub/grub.cfg 2>/dev/null)
  without=$(grep -vE ' pci=realloc( |$)' <<<"$lines"; grep -vE ' pci=nocrs( |$)' <<<"$lines")
  if [[ -z $lines ]]; then
    fact arguments required absent "there is no /boot/grub/grub.cfg with a kernel"
  elif [[ -n $without ]]; then
    fact arguments required absent "grub.cfg starts a kernel without pci=realloc pci=nocrs:$(
      head -n 1 <<<"$without" | sed -E 's/^[[:space:]]*linux[a-z0-9]*//' | tr -s ' \t' ' ')"
  else
    fact arguments required ok "pci=realloc pci=nocrs in $(grep -c . <<<"$lines") entries of grub.cfg"
  fi
}

package() {
  # shellcheck disable=SC2016 # a format of dpkg's
  dpkg-query -W -f '${db:Status-Abbrev} ${Version}\n' "$1" 2>/dev/null | sed -nE 's/^.i +//p'
}

programs() {
  local found
  found=$(cloud-init --version 2>&1 | sed -nE 's/^.*cloud-init //p' | head -n 1)
  fact cloud-init required "$(state "$found")" "${found:-no user data is read without it}"
  found=$(package qemu-guest-agent)
  fact guest-agent optional "$(state "$found")" \
    "${found:-the result of the GPU step cannot be read where a node does not join}"
  found=$(kubeadm version -o short 2>/dev/null)
  fact kubeadm optional "$(state "$found")" "${found:-installed at first boot}"
  found=$(kubelet --version 2>/dev/null | sed 's/^Kubernetes //')
  fact kubelet optional "$(state "$found")" "${found:-installed at first boot}"
  found=$(containerd --version 2>/dev/null | awk '{ print $3 }')
  fact containerd optional "$(state "$found")" "${found:-installed at first boot}"
}

gpu() {
  local found kernel
  kernel=$(newest_kernel)
  found=$(modinfo -k "$kernel" -F version nvidia 2>/dev/null)
  if has nvidia-smi && [[ -n $found ]]; then
    fact driver optional ok "$found for $kernel"
  elif has nvidia-smi; then
    fact driver optional absent "nvidia-smi is there, and no module nvidia for $kernel"
  else
    fact driver optional absent "installed at first boot, if driverVersion is set"
  fi
  found=$(has nvidia-container-runtime && nvidia-ctk --version 2>/dev/null | sed -nE 's/^.*version //p')
  fact toolkit optional "$(state "$found")" "${found:-installed at first boot, if driverVersion is set}"
  if containerd config dump 2>/dev/null | grep -qE "runtimes\.[\"']?nvidia[\"']?\]"; then
    fact runtime optional ok "containerd has the runtime nvidia"
  else
    fact runtime optional absent "registered at first boot, if driverVersion is set"
  fi
}

firmware() {
  local kinds=()
  [[ ! -e /boot/grub/i386-pc/normal.mod ]] || kinds+=(bios)
  [[ ! -e /boot/efi/EFI/BOOT/BOOTX64.EFI ]] || kinds+=(uefi)
  fact boot-type optional "$(state "${kinds[*]}")" "${kinds[*]:-neither bios nor uefi, as far as seen}"
}

system
blacklist
initramfs
arguments
programs
gpu
firmware
exit 0

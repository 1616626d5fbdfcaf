# shellcheck shell=bash
# shellcheck disable=SC2034 # what is set here is used by the scripts that source it
# Runs in the image, as root of libguestfs's virtual machine: its kernel is not the image's.
set -euo pipefail
PAYLOAD=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C HOME=/root
DRIVER='' KUBERNETES_VERSION='' PACKAGES='' GROW=0 SOURCE_DATE_EPOCH=''
# shellcheck disable=SC1091 # written by the build; absent in a check
[[ ! -r $PAYLOAD/build.env ]] || . "$PAYLOAD/build.env"
BLACKLIST=/etc/modprobe.d/capvco-gpu-base.conf
GRUB_PART=/etc/default/grub.d/90-capvco-gpu.cfg

die() {
  printf 'capvco-image: ERROR: %s\n' "$*"
  exit 1
}

has() {
  command -v "$1" >/dev/null 2>&1
}

# The kernels that the image can boot, oldest first.
kernels() {
  local file
  for file in /boot/vmlinuz-*; do
    [[ ! -e $file ]] || printf '%s\n' "${file#/boot/vmlinuz-}"
  done | sort -V
}

newest_kernel() {
  kernels | tail -n 1
}

# The time stamp of what is made here: a moment that depends on the base alone.
epoch() {
  if [[ -n $SOURCE_DATE_EPOCH ]]; then
    printf '%s' "$SOURCE_DATE_EPOCH"
  else
    stat -c %Y "/boot/vmlinuz-$(newest_kernel)"
  fi
}

stamp() {
  touch -h -d "@$(epoch)" "$@"
}

# shellcheck shell=bash
# shellcheck disable=SC2034 # what is set here is used by the other files
# A disk image opened in libguestfs's small virtual machine: as an ordinary user, without loop
# devices, and so that nothing of the image ever runs on this machine.

APPLIANCE='' SOCKETS=''
PAYLOAD=/var/tmp/capvco-image

gf() {
  interruptible guestfish --remote="$APPLIANCE" -- "$@"
}

# libguestfs boots this machine's kernel, which Ubuntu lets only root read.
check_kernel() {
  local file
  [[ -z ${SUPERMIN_KERNEL:-}${LIBGUESTFS_PATH:-} ]] || return 0
  for file in /boot/vmlinu[xz]-* /lib/modules/*/vmlinuz; do
    [[ ! -r $file ]] || return 0
  done
  for file in /boot/vmlinu[xz]-*; do
    [[ ! -e $file ]] || die "$FAILED" "libguestfs needs to read a kernel, and $file is not readable:" \
      "sudo chmod 0644 /boot/vmlinuz-*, or name one by SUPERMIN_KERNEL and SUPERMIN_MODULES"
  done
  die "$FAILED" "libguestfs needs a kernel, and there is none in /boot: install the package" \
    "linux-image-cloud-amd64 (Debian) or linux-image-kvm (Ubuntu), or name one by SUPERMIN_KERNEL" \
    "and SUPERMIN_MODULES"
}

# appliance_open DISK: a qcow2, which is written to; the image's file systems are mounted.
appliance_open() {
  local started
  check_kernel
  export LIBGUESTFS_BACKEND=${LIBGUESTFS_BACKEND:-direct}
  if ! kvm_usable; then
    export LIBGUESTFS_BACKEND_SETTINGS=${LIBGUESTFS_BACKEND_SETTINGS:-force_tcg}
  fi
  # All of its files in folders that are ours to remove; a socket needs a short name.
  SOCKETS=$(mktemp -d /tmp/capvco-image.XXXXXX)
  started=$(LIBGUESTFS_TMPDIR=$SCRATCH XDG_RUNTIME_DIR=$SOCKETS guestfish --listen)
  APPLIANCE=${started#GUESTFISH_PID=}
  APPLIANCE=${APPLIANCE%%;*}
  [[ $APPLIANCE =~ ^[0-9]+$ ]] || die "$FAILED" "guestfish does not start: $started"
  gf add "$1" format:qcow2 discard:enable cachemode:unsafe
  if bakes; then
    gf set-network true
    gf set-memsize 2048
  fi
  gf run || die "$FAILED" "libguestfs does not start: run libguestfs-test-tool, which says why"
  mount_image
}

mount_image() {
  local roots mountpoint device points=()
  roots=$(gf inspect-os)
  if [[ -z $roots || $roots == *$'\n'* ]]; then
    die "$FAILED" "the image has ${roots:+more than one}${roots:-no} operating system that libguestfs" \
      "knows: ${roots//$'\n'/ }"
  fi
  while IFS=': ' read -r mountpoint device; do
    [[ -z $mountpoint ]] || points+=("$mountpoint $device")
  done < <(gf inspect-get-mountpoints "$roots")
  # Outer ones first.
  while read -r mountpoint device; do
    gf mount "$device" "$mountpoint" 2>"$SCRATCH/mount.err" ||
      say "NOTE: $device of the image is not mounted at $mountpoint: $(head -n 1 "$SCRATCH/mount.err")"
  done < <(printf '%s\n' "${points[@]}" | sort)
  MOUNTED=$(printf '%s\n' "${points[@]}" | cut -d ' ' -f 1)
}

# Put our own scripts into the image, for as long as it is open.
send_payload() {
  gf mkdir-p "$PAYLOAD"
  tar -C "$1" --owner=0 --group=0 -cf "$SCRATCH/payload.tar" .
  gf tar-in "$SCRATCH/payload.tar" "$PAYLOAD"
  rm -f "$SCRATCH/payload.tar"
}

# inside STEP: run one of guest/*.sh in the image; prints its output. Its status comes as the last
# line, since of a command that fails libguestfs drops the output.
inside() {
  local said=$SCRATCH/inside
  gf sh "/bin/bash $PAYLOAD/$1.sh 2>&1; printf '\\nstatus %s\\n' \$?" >"$said" || return
  # guestfish adds an empty line to what it prints.
  grep -vE '^(status [0-9]+)?$' "$said" || true
  grep -qx 'status 0' "$said"
}

appliance_close() {
  local point
  if [[ ${1:-} == trim ]]; then
    for point in $MOUNTED; do
      gf fstrim "$point" >/dev/null 2>&1 || true
    done
  fi
  gf umount-all
  gf shutdown
  gf exit >/dev/null 2>&1 || true
  appliance_kill
}

# Ends our guestfish, if it is there; with it goes its QEMU, within two seconds.
appliance_kill() {
  if [[ -n $APPLIANCE ]]; then
    kill -TERM "$APPLIANCE" 2>/dev/null || true
    rm -f "/tmp/.guestfish-$UID/socket-$APPLIANCE"
    APPLIANCE=''
  fi
  if [[ -n $SOCKETS ]]; then
    rm -rf "$SOCKETS"
    SOCKETS=''
  fi
}

# shellcheck shell=bash
# shellcheck disable=SC2034 # what is set here is used by the other files
# Boots an image once, on an overlay, and reads on its serial console what its kernel was told and
# has loaded. The questions come as a NoCloud seed, so the image itself is not changed.

# Print the program that makes a seed.
seed_tool() {
  local tool
  for tool in genisoimage mkisofs xorrisofs; do
    if has "$tool"; then
      printf '%s' "$tool"
      return 0
    fi
  done
  return 1
}

make_seed() {
  local folder=$SCRATCH/seed
  mkdir -p "$folder"
  printf 'instance-id: capvco-boot-test\nlocal-hostname: boot-test\n' >"$folder/meta-data"
  cat >"$folder/user-data" <<'END'
#cloud-config
runcmd:
  - [sh, -c, "for tty in /dev/ttyS0 /dev/console; do
      { echo; echo CAPVCO-BOOT-CMDLINE; cat /proc/cmdline; echo CAPVCO-BOOT-MODULES; lsmod;
        echo CAPVCO-BOOT-END; } >$tty && break; done; poweroff"]
END
  "$(seed_tool)" -quiet -o "$SCRATCH/seed.iso" -V cidata -J -r "$folder" 2>"$SCRATCH/seed.err" ||
    die "$FAILED" "the seed of the boot test cannot be made: $(tail -n 1 "$SCRATCH/seed.err")"
}

machine() {
  if kvm_usable; then
    printf '%s\n' -accel kvm -cpu host
  else
    # With newer models an emulated guest takes a clock that makes it many times slower.
    printf '%s\n' -accel tcg,thread=multi,tb-size=512 -cpu Westmere
  fi
}

# boot_test FILE: print the kernel's arguments and modules; VERDICT if they are not those of a
# GPU node.
boot_test() {
  local flags before=$SECONDS
  [[ -n $SCRATCH ]] || make_scratch
  BASE_IMAGE=$1
  read_base
  make_seed
  rm -f "$SCRATCH/boot.qcow2"
  qemu-img create -q -f qcow2 -b "$(readlink -f "$1")" -F "$BASE_FORMAT" "$SCRATCH/boot.qcow2"
  mapfile -t flags < <(machine)
  say "booting $1 (at most $BOOT_TIMEOUT s) ..."
  note_speed
  interruptible timeout --kill-after=10 "$BOOT_TIMEOUT" qemu-system-x86_64 "${flags[@]}" -m 1536 -smp 2 \
    -display none -monitor none -no-reboot -nodefaults -serial "file:$SCRATCH/console" \
    -drive "file=$SCRATCH/boot.qcow2,if=virtio,format=qcow2,cache=unsafe" \
    -drive "file=$SCRATCH/seed.iso,if=virtio,format=raw,readonly=on" \
    -device virtio-rng-pci >"$SCRATCH/qemu.log" 2>&1 </dev/null || true
  tr -d '\r' <"$SCRATCH/console" >"$SCRATCH/console.txt" 2>/dev/null || true
  if ! grep -qx CAPVCO-BOOT-END "$SCRATCH/console.txt"; then
    tail -n 30 "$SCRATCH/console.txt" "$SCRATCH/qemu.log" >&2
    die "$FAILED" "the image did not answer on its serial console within $((SECONDS - before)) s;" \
      "its last words are above (cloud-init and a console on ttyS0 are needed)"
  fi
  say "booted and answered after $((SECONDS - before)) s"
  judge_boot
}

between() {
  awk -v from="$1" -v to="$2" '$0 == to { inside = 0 } inside { print } $0 == from { inside = 1 }' \
    "$SCRATCH/console.txt"
}

judge_boot() {
  local arguments modules word name
  arguments=$(between CAPVCO-BOOT-CMDLINE CAPVCO-BOOT-MODULES)
  modules=$(between CAPVCO-BOOT-MODULES CAPVCO-BOOT-END)
  printf '/proc/cmdline: %s\n' "$arguments"
  printf 'modules: %s\n' "$(awk 'NR > 1 { print $1 }' <<<"$modules" | sort | paste -sd ' ')"
  for word in pci=realloc pci=nocrs; do
    if [[ " $arguments " != *" $word "* ]]; then
      say "MISSING: the kernel was not started with $word"
      VERDICT=$LACKING
    fi
  done
  for name in nouveau nova_core nova_drm; do
    if grep -qE "^$name " <<<"$modules"; then
      say "MISSING: $name is loaded in spite of the blacklist"
      VERDICT=$LACKING
    fi
  done
}

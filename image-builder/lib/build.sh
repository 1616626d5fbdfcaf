# shellcheck shell=bash
# shellcheck disable=SC2034,SC2153 # variables are shared with the other files
# From a base image to the output: on an overlay, compressed at the end, put in place by a rename.

build_image() {
  local key record=$OUTPUT.json folder
  folder=$(dirname "$OUTPUT")
  mkdir -p "$folder"
  make_scratch "$(cd "$folder" && pwd)"
  [[ -n $BASE_IMAGE ]] || download_base
  read_base
  key=$(inputs)
  if ! ((FORCE)) && up_to_date "$key" "$record"; then
    say "$OUTPUT is there already, made of the same: nothing to do (--force builds it again)"
    return 0
  fi
  note_speed
  make_overlay
  timed "opening the image" appliance_open "$SCRATCH/work.qcow2"
  timed "preparing" prepare
  run_step base "blacklist and kernel arguments"
  if bakes; then run_step bake "installing (driver, toolkit, containerd, Kubernetes)"; fi
  run_step initramfs "initramfs and GRUB's menu"
  run_step seal "leaving no traces"
  verify_build
  timed "closing the image" appliance_close trim
  timed "compressing" interruptible qemu-img convert -c -O qcow2 "$SCRATCH/work.qcow2" "$SCRATCH/output.qcow2"
  put_in_place "$key" "$record"
  say "$OUTPUT: $(du -m "$OUTPUT" | cut -f 1) MB, $(grep -o '"sha256": *"[0-9a-f]*"' "$record")"
}

# Set BASE_FORMAT. An image that is stored as the difference to another would drag files in.
read_base() {
  local info
  info=$(qemu-img info --output=json "$BASE_IMAGE" 2>"$SCRATCH/info.err") ||
    die "$FAILED" "$BASE_IMAGE is no disk image: $(tail -n 1 "$SCRATCH/info.err")"
  [[ $info != *'"backing-filename"'* ]] ||
    die "$FAILED" "$BASE_IMAGE is the difference to another image: flatten it by qemu-img convert"
  BASE_FORMAT=$(sed -nE 's/^ {4}"format": "([a-z0-9]+)".*/\1/p' <<<"$info" | head -n 1)
  BASE_BYTES=$(sed -nE 's/^ {4}"virtual-size": ([0-9]+).*/\1/p' <<<"$info" | head -n 1)
  [[ $BASE_FORMAT == qcow2 || $BASE_FORMAT == raw ]] ||
    die "$FAILED" "$BASE_IMAGE is ${BASE_FORMAT:-of no known format}: qcow2 or raw is wanted"
}

# Print what decides about the result: contents, not names and dates.
inputs() {
  local file files=("$BASE_IMAGE" "$HERE"/*.sh "$HERE"/guest/*.sh "$HERE"/lib/*.sh)
  if bakes; then files+=("$DRIVER_PACKAGE" "$SETTINGS" "$APT_SOURCES" "$NODE_SCRIPTS"/*); fi
  {
    for file in "${files[@]}"; do
      [[ ! -f $file ]] || sha_of "$file"
    done
    printf '%s\n' "$DRIVER" "${DRIVER_PACKAGE##*.}" "$KUBERNETES_VERSION" "$PACKAGES" "$SIZE" \
      "${SOURCE_DATE_EPOCH:-}"
  } | sha256sum | cut -d ' ' -f 1
}

up_to_date() {
  [[ -e $OUTPUT && -e $2 ]] && grep -q "\"inputs\": *\"$1\"" "$2" &&
    grep -q "\"sha256\": *\"$(sha_of "$OUTPUT")\"" "$2"
}

make_overlay() {
  local size=$SIZE
  if [[ -z $size ]] && bakes && ((BASE_BYTES < 10 << 30)); then size=10; fi
  qemu-img create -q -f qcow2 -b "$(readlink -f "$BASE_IMAGE")" -F "$BASE_FORMAT" \
    "$SCRATCH/work.qcow2"
  GROW=0
  if [[ -n $size ]] && ((BASE_BYTES < size << 30)); then
    qemu-img resize -q "$SCRATCH/work.qcow2" "${size}G"
    GROW=1
  elif [[ -n $size ]] && ((BASE_BYTES > size << 30)); then
    die "$USAGE" "--size $size: the base has $((BASE_BYTES >> 20)) MiB, and no image is made smaller"
  fi
}

prepare() {
  local payload=$SCRATCH/payload
  mkdir -p "$payload/node"
  cp "$HERE"/guest/*.sh "$payload/"
  cp "$NODE_SCRIPTS"/* "$payload/node/"
  [[ -z $SETTINGS ]] || cp "$SETTINGS" "$payload/settings.env"
  [[ -z $APT_SOURCES ]] || cp "$APT_SOURCES" "$payload/apt.sources"
  [[ -z $DRIVER_PACKAGE ]] || cp "$DRIVER_PACKAGE" "$payload/driver.${DRIVER_PACKAGE##*.}"
  printf '%s=%q\n' DRIVER "$DRIVER" KUBERNETES_VERSION "$KUBERNETES_VERSION" \
    PACKAGES "${PACKAGES//,/ }" GROW "$GROW" \
    SOURCE_DATE_EPOCH "${SOURCE_DATE_EPOCH:-}" >"$payload/build.env"
  send_payload "$payload"
}

# run_step SCRIPT WORDS: a step in the image; its output is shown if it fails.
run_step() {
  local before=$SECONDS
  say "$2 ..."
  if ! inside "$1" >"$SCRATCH/$1.log" 2>&1; then
    tail -n 40 "$SCRATCH/$1.log" >&2
    die "$FAILED" "$2 failed in the image; nothing is left of it"
  fi
  grep -hE '^capvco' "$SCRATCH/$1.log" >&2 || true
  say "$2: $((SECONDS - before)) s"
}

# The proof, on what is about to become the output.
verify_build() {
  gather "$SCRATCH/facts"
  if ! all_required "$SCRATCH/facts"; then
    print_table "$SCRATCH/facts" >&2
    die "$FAILED" "the image was changed, and still lacks what is MISSING above"
  fi
  if [[ -n $DRIVER$DRIVER_PACKAGE ]] && grep -qE $'^(driver|toolkit|runtime)\toptional\tabsent' \
    "$SCRATCH/facts"; then
    print_table "$SCRATCH/facts" >&2
    die "$FAILED" "driver, toolkit and runtime were installed, and are not all there"
  fi
  gf rm-rf "$PAYLOAD"
}

put_in_place() {
  cat >"$SCRATCH/record.json" <<END
{
  "inputs": "$1",
  "sha256": "$(sha_of "$SCRATCH/output.qcow2")",
  "base": "$(sha_of "$BASE_IMAGE")",
  "driver": "${DRIVER:-${DRIVER_PACKAGE##*/}}",
  "kubernetes": "$KUBERNETES_VERSION",
  "packages": "$PACKAGES"
}
END
  # The image last: a record of another image says nothing, by its sum.
  chmod 0644 "$SCRATCH/output.qcow2" "$SCRATCH/record.json"
  mv "$SCRATCH/record.json" "$2"
  mv "$SCRATCH/output.qcow2" "$OUTPUT"
}

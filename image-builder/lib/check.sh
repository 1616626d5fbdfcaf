# shellcheck shell=bash
# shellcheck disable=SC2034,SC2153 # variables are shared with the other files
# What an image has. guest/facts.sh finds it out; here it is printed and judged.
#
# A fact is a line of four columns, parted by tabs: name, required|optional, ok|absent, detail.

VERDICT=0

gather() {
  inside facts >"$1.all" || die "$FAILED" "the image cannot be looked at: $(grep . "$1.all" | tail -n 1)"
  grep -E $'^[a-z-]+\t(required|optional)\t(ok|absent)\t' "$1.all" >"$1" ||
    die "$FAILED" "the image tells nothing of itself: $(grep . "$1.all" | tail -n 1)"
}

all_required() {
  ! grep -qE $'^[a-z-]+\trequired\tabsent\t' "$1"
}

check_image() {
  local facts
  make_scratch
  note_speed
  facts=$SCRATCH/facts
  BASE_IMAGE=$1
  read_base
  qemu-img create -q -f qcow2 -b "$(readlink -f "$1")" -F "$BASE_FORMAT" "$SCRATCH/work.qcow2"
  appliance_open "$SCRATCH/work.qcow2"
  mkdir "$SCRATCH/payload"
  cp "$HERE"/guest/*.sh "$SCRATCH/payload/"
  send_payload "$SCRATCH/payload"
  gather "$facts"
  appliance_close
  all_required "$facts" || VERDICT=$LACKING
  if [[ $FORMAT == json ]]; then print_json "$1" "$facts"; else print_table "$facts"; fi
}

print_table() {
  local name need state detail
  printf '%-20s %-9s %-8s %s\n' CHECK NEED STATE DETAIL
  while IFS=$'\t' read -r name need state detail; do
    [[ $need$state != requiredabsent ]] || state=MISSING
    printf '%-20s %-9s %-8s %s\n' "$name" "$need" "$state" "$detail"
  done <"$1"
}

json_string() {
  local text=$1
  text=${text//\\/\\\\}
  text=${text//\"/\\\"}
  text=${text//[[:cntrl:]]/ }
  printf '"%s"' "$text"
}

print_json() {
  local name need state detail comma='' complete=true
  ((VERDICT == 0)) || complete=false
  printf '{"image": %s, "complete": %s, "checks": [' "$(json_string "$1")" "$complete"
  while IFS=$'\t' read -r name need state detail; do
    printf '%s\n  {"name": "%s", "need": "%s", "state": "%s", "detail": %s}' "$comma" "$name" \
      "$need" "$state" "$(json_string "$detail")"
    comma=,
  done <"$2"
  printf '\n]}\n'
}

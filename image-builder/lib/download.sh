# shellcheck shell=bash
# shellcheck disable=SC2034,SC2153 # variables are shared with the other files
# The cloud image: downloaded once, in pieces if need be, and never used unverified.

TRIES=${CAPVCO_IMAGE_TRIES:-5}
PAUSE=${CAPVCO_IMAGE_RETRY_PAUSE:-5}
KEYRING=/usr/share/keyrings/ubuntu-cloudimage-keyring.gpg

fetch() {
  curl -fsSL --connect-timeout 20 "$@"
}

# retry COMMAND...
retry() {
  local try
  for ((try = 1; try <= TRIES; try++)); do
    if "$@"; then return 0; fi
    if ((try < TRIES)); then
      say "attempt $try of $TRIES failed, again in $((PAUSE * try)) s"
      sleep "$((PAUSE * try))"
    fi
  done
  return 1
}

# Print the sum that the release has for the image. Its signature is checked where a key is there.
expected_sum() {
  local sums=$SCRATCH/SHA256SUMS sum
  retry fetch -o "$sums" "$BASE_URL/SHA256SUMS" ||
    die "$FAILED" "$BASE_URL/SHA256SUMS cannot be fetched: see that this machine reaches it, give" \
      "a mirror by --base-url, or a file by --base-image"
  if has gpgv && [[ -r $KEYRING ]] && fetch -o "$sums.gpg" "$BASE_URL/SHA256SUMS.gpg"; then
    gpgv --quiet --keyring "$KEYRING" "$sums.gpg" "$sums" 2>"$SCRATCH/gpgv" ||
      die "$FAILED" "the signature of $BASE_URL/SHA256SUMS is wrong: $(tail -n 1 "$SCRATCH/gpgv")"
  fi
  sum=$(awk -v name="$RELEASE_IMAGE" '{ sub(/^\*/, "", $2) } $2 == name { print $1; exit }' "$sums")
  [[ $sum =~ ^[0-9a-f]{64}$ ]] ||
    die "$FAILED" "$BASE_URL/SHA256SUMS has no sum for $RELEASE_IMAGE"
  printf '%s' "$sum"
}

# Go on where an earlier attempt ended, at once or days ago; start over if the server cannot.
fetch_on() {
  local part=$1 code status=0
  code=$(fetch -w '%{http_code}' -C - -o "$part" "$BASE_URL/$RELEASE_IMAGE") || status=$?
  # 33: no ranges. 416: what is here is as long as the file, and yet another one.
  if ((status == 33)) || [[ $code == 416 ]]; then
    rm -f "$part"
    status=0
    fetch -o "$part" "$BASE_URL/$RELEASE_IMAGE" || status=$?
  fi
  return "$status"
}

# Set BASE_IMAGE to the verified cloud image.
download_base() {
  local sum target part
  sum=$(expected_sum)
  target=$CACHE/$sum.img
  part=$CACHE/$sum.part
  mkdir -p "$CACHE"
  exec 8>"$CACHE/$sum.lock"
  flock 8
  if [[ ! -e $target ]]; then
    if [[ ! -e $part || $(sha_of "$part") != "$sum" ]]; then
      say "downloading $BASE_URL/$RELEASE_IMAGE"
      retry fetch_on "$part" ||
        die "$FAILED" "$BASE_URL/$RELEASE_IMAGE cannot be fetched; what has come is kept, and the" \
          "next run goes on with it"
      if [[ $(sha_of "$part") != "$sum" ]]; then
        rm -f "$part"
        die "$FAILED" "$BASE_URL/$RELEASE_IMAGE is not what SHA256SUMS says ($sum): removed; a" \
          "mirror may be out of step, so try again later or give another --base-url"
      fi
    fi
    mv "$part" "$target"
  fi
  exec 8>&-
  BASE_IMAGE=$target
}

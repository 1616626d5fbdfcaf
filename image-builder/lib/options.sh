# shellcheck shell=bash
# shellcheck disable=SC2034 # what is set here is used by the other files
# The command line.

RELEASE_URL=https://cloud-images.ubuntu.com/releases/noble/release
RELEASE_IMAGE=ubuntu-24.04-server-cloudimg-amd64.img

BASE_IMAGE='' BASE_URL=${CAPVCO_IMAGE_BASE_URL:-$RELEASE_URL} OUTPUT='' CHECK='' BOOT_TEST=0 FORCE=0
DRIVER='' DRIVER_PACKAGE='' KUBERNETES_VERSION='' PACKAGES='' SETTINGS='' APT_SOURCES='' SIZE='' FORMAT=table
CACHE=${CAPVCO_IMAGE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/capvco-image-builder}
BOOT_TIMEOUT=900

usage() {
  cat <<END
Usage: build-gpu-base-image.sh [OPTIONS]
       build-gpu-base-image.sh --check FILE [-o json] [--boot-test]

Makes the disk image of a GPU node from the Ubuntu 24.04 cloud image: nouveau and its successors
blacklisted in the initramfs, pci=realloc pci=nocrs on the kernel command line.

  --base-image FILE       a local image (qcow2 or raw) of the Debian family with GRUB; not changed
  --base-url URL          folder that has $RELEASE_IMAGE and SHA256SUMS
  --output FILE           default dist/capvco-ubuntu-2404-gpu-base.qcow2
  --force                 build even if nothing has changed

Everything baked in (needs the network, or mirrors):
  --driver BRANCH         nvidia-driver-BRANCH-server, such as 570 or 580-open, container toolkit,
                          containerd's runtime
  --driver-package FILE   the same with your own driver, a .deb or a .run (vGPU/GRID)
  --kubernetes-version V  containerd, kubeadm and kubelet, such as v1.35.8
  --packages A,B          packages of the image's archives, such as qemu-guest-agent
  --settings FILE         settings of the node's scripts (mirrors): lines CAPVCO_...=VALUE
  --apt-sources FILE      sources list for the build, instead of the image's own
  --size GIB              size of the disk; default: the base's, at least 10 with anything baked in

Looking at an image, which is not changed:
  --check FILE            print what a GPU node needs, and whether it is there
  -o table|json           form of --check's output
  --boot-test             boot it, and read /proc/cmdline and lsmod on its console
  --boot-timeout SECONDS  default $BOOT_TIMEOUT

  -h, --help              this text

Environment: SOURCE_DATE_EPOCH (time stamps in the image), CAPVCO_IMAGE_CACHE (downloads),
CAPVCO_IMAGE_BASE_URL, and those of libguestfs (SUPERMIN_KERNEL, LIBGUESTFS_PATH ...).
Exit status: 0 done, 1 failed, 2 wrong options, 3 a tool is not installed, 4 the image lacks
something that a GPU node requires.
END
}

wrong() {
  die "$USAGE" "$* (--help lists the options)"
}

parse_options() {
  local name value
  while (($#)); do
    name=$1
    case $name in
      -h | --help) usage; exit 0 ;;
      --boot-test) BOOT_TEST=1; shift; continue ;;
      --force) FORCE=1; shift; continue ;;
      --*=*) value=${name#*=}; name=${name%%=*}; set -- "$name" "$value" "${@:2}" ;;
    esac
    (($# >= 2)) || wrong "$(unknown "$name" || printf '%s needs a value' "$name")"
    set_option "$name" "$2"
    shift 2
  done
  check_options
}

unknown() {
  case $1 in
    --base-image | --base-url | --output | --driver | --driver-package | --kubernetes-version | \
      --packages | --settings | --apt-sources | --size | --check | -o | --boot-timeout) return 1 ;;
    *) printf 'there is no option %s' "$1" ;;
  esac
}

set_option() {
  case $1 in
    --base-image) BASE_IMAGE=$2 ;;
    --base-url) BASE_URL=${2%/} ;;
    --output) OUTPUT=$2 ;;
    --driver) DRIVER=$2 ;;
    --driver-package) DRIVER_PACKAGE=$2 ;;
    --kubernetes-version) KUBERNETES_VERSION=$2 ;;
    --packages) PACKAGES=$2 ;;
    --settings) SETTINGS=$2 ;;
    --apt-sources) APT_SOURCES=$2 ;;
    --size) SIZE=$2 ;;
    --check) CHECK=$2 ;;
    -o) FORMAT=$2 ;;
    --boot-timeout) BOOT_TIMEOUT=$2 ;;
    *) wrong "$(unknown "$1")" ;;
  esac
}

check_options() {
  local file
  [[ -z $DRIVER || $DRIVER =~ ^[0-9]{3}(-open)?$ ]] ||
    wrong "--driver $DRIVER: a branch is three digits, such as 570 or 580-open"
  [[ -z $KUBERNETES_VERSION || $KUBERNETES_VERSION =~ ^v1\.[0-9]+\.[0-9]+$ ]] ||
    wrong "--kubernetes-version $KUBERNETES_VERSION: a version is v1.x.y, such as v1.35.8"
  [[ -z $DRIVER || -z $DRIVER_PACKAGE ]] || wrong "--driver and --driver-package exclude each other"
  [[ -z $DRIVER_PACKAGE || $DRIVER_PACKAGE == *.deb || $DRIVER_PACKAGE == *.run ]] ||
    wrong "--driver-package $DRIVER_PACKAGE: a .deb or a .run is wanted"
  [[ $FORMAT == table || $FORMAT == json ]] || wrong "-o $FORMAT: table or json"
  [[ -z $SIZE || $SIZE =~ ^[1-9][0-9]*$ ]] || wrong "--size $SIZE: whole GiB"
  [[ $BOOT_TIMEOUT =~ ^[1-9][0-9]*$ ]] || wrong "--boot-timeout $BOOT_TIMEOUT: whole seconds"
  [[ -z $PACKAGES || $PACKAGES =~ ^[a-z0-9][a-z0-9+.,-]*$ ]] ||
    wrong "--packages $PACKAGES: names parted by commas"
  if [[ -n $CHECK && -n $BASE_IMAGE$DRIVER$DRIVER_PACKAGE$KUBERNETES_VERSION$PACKAGES$OUTPUT ]]; then
    wrong "--check looks at an image, and takes no option of a build"
  fi
  for file in "$BASE_IMAGE" "$DRIVER_PACKAGE" "$SETTINGS" "$APT_SOURCES" "$CHECK"; do
    [[ -z $file || (-f $file && -r $file) ]] || wrong "$file: no such file, or not readable"
  done
  OUTPUT=${OUTPUT:-dist/capvco-ubuntu-2404-gpu-base.qcow2}
}

# Whether anything is installed into the image.
bakes() {
  [[ -n $DRIVER$DRIVER_PACKAGE$KUBERNETES_VERSION$PACKAGES ]]
}

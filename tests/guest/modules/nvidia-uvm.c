// SPDX-License-Identifier: MIT OR GPL-2.0-only
// The module that the step loads after the driver; it does nothing.
#include <linux/module.h>

MODULE_DESCRIPTION("A companion of the driver for tests");
MODULE_VERSION("570.133.20");
MODULE_LICENSE("Dual MIT/GPL");

// SPDX-License-Identifier: MIT OR GPL-2.0-only
// A driver that binds to the card of the tests and does nothing with it.
#include <linux/module.h>
#include <linux/pci.h>

static const struct pci_device_id cards[] = {
	{ PCI_DEVICE(0x10de, PCI_ANY_ID), .class = PCI_BASE_CLASS_DISPLAY << 16, .class_mask = 0xff0000 },
	{ }
};

static int bind(struct pci_dev *card, const struct pci_device_id *id)
{
	return 0;
}

static struct pci_driver stub = { .name = "nvidia", .id_table = cards, .probe = bind };

module_pci_driver(stub);
MODULE_DESCRIPTION("A driver for tests");
MODULE_VERSION("570.133.20");
MODULE_LICENSE("Dual MIT/GPL");

// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Has a name among the miscellaneous devices, so that a driver that wants it finds out, late in its probe, what becomes of what it
 * had by then. Only a test (crates/rack/tests/ipnuma_guests.rs).
 */
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>

static char *name = "";
module_param(name, charp, 0444);
MODULE_PARM_DESC(name, "the name to take");

static const struct file_operations nothing = { .owner = THIS_MODULE };
static struct miscdevice taken = { .minor = MISC_DYNAMIC_MINOR, .fops = &nothing };

static int __init misc_name_init(void)
{
	taken.name = name;
	return misc_register(&taken);
}

static void __exit misc_name_exit(void)
{
	misc_deregister(&taken);
}

module_init(misc_name_init);
module_exit(misc_name_exit);
MODULE_DESCRIPTION("Takes the name of a device");
MODULE_LICENSE("Dual MIT/GPL");

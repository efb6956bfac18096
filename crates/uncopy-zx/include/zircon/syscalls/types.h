/* The interface of Zircon's types of calls, on Linux. Part of uncopy-zx.
 * Licensed under MIT or Apache-2.0. */
#ifndef UNCOPY_ZIRCON_SYSCALLS_TYPES_H_
#define UNCOPY_ZIRCON_SYSCALLS_TYPES_H_

#include <zircon/types.h>

#endif

/* The interface of Zircon's information on objects, on Linux. Part of uncopy-zx.
 * Licensed under MIT or Apache-2.0. */
#ifndef UNCOPY_ZIRCON_OBJECT_H_
#define UNCOPY_ZIRCON_OBJECT_H_

#include <zircon/syscalls/object.h>

#endif

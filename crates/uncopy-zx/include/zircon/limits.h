/* The interface of Zircon's limits, on Linux. Part of uncopy-zx.
 * Licensed under MIT or Apache-2.0. */
#ifndef UNCOPY_ZIRCON_LIMITS_H_
#define UNCOPY_ZIRCON_LIMITS_H_

#include <zircon/types.h>

#endif

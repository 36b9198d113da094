/* The few NVML calls that facts need, by dlopen and without NVIDIA's header.
 *
 * May hang or crash with the driver: call it in a process that may be killed. */
#ifndef MUSTER_AGENTS_FACTS_FACTS_NVML_H
#define MUSTER_AGENTS_FACTS_FACTS_NVML_H

#include <jansson.h>
#include <stdbool.h>

#include "common/err.h"

/* *devices: array of {"index","uuid","serial","name","bdf","memory_bytes","vbios"}, new reference.
 * *simulated: the library is a stand-in of the tests (it exports muster_fake_gpu).
 * ERR_ENV: libnvidia-ml.so.1 or a symbol is missing, or NVML's own error text. */
int facts_nvml_devices(json_t **devices, bool *simulated, struct err *err);

#endif

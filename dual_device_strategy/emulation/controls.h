// The emulated GPUs' own controls, beside the TensorFlow plugin interface.
// Plain C, for ctypes.
#ifndef DUAL_DEVICE_STRATEGY_EMULATION_CONTROLS_H_
#define DUAL_DEVICE_STRATEGY_EMULATION_CONTROLS_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  int64_t compute_ns;  // time the device computed, up to this moment
  int64_t copy_ns;     // time its links moved data to or from it
  int64_t bytes_in;    // received from the host or from another device
  int64_t bytes_out;   // sent to the host or to another device
  int64_t bytes_pageable;  // of bytes_in: from host memory that is not pinned
  int64_t memory_live;
  int64_t memory_peak;
  int64_t memory_limit;
} EmulatedGpuStats;

// To be called once, before the library is given to TensorFlow as a plugin.
// The links' figures are those of emulated_gpu::Links.
void emulated_gpu_configure(int count, const int64_t* memory_limits,
                            double gigabytes_per_second, double latency_us,
                            double pageable_gigabytes_per_second,
                            int peer_access);
// Has no effect on TensorFlow devices that exist already.
void emulated_gpu_set_memory_limit(int device, int64_t bytes);
void emulated_gpu_stats(int device, EmulatedGpuStats* stats);

// The peak of a device's live memory since emulated_gpu_begin_watch().
void* emulated_gpu_begin_watch(int device);
int64_t emulated_gpu_watched_peak(void* watch);
void emulated_gpu_end_watch(void* watch);

// To be called once, after TensorFlow has taken the plugin: gives its devices
// their memory and CPU kernels.  Returns the number of kernels.
int emulated_gpu_register_with_tensorflow(void);

#ifdef __cplusplus
}
#endif

#endif  // DUAL_DEVICE_STRATEGY_EMULATION_CONTROLS_H_

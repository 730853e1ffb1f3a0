#include "controls.h"

#include <vector>

#include "machine.h"

using emulated_gpu::DeviceMemory;
using emulated_gpu::Machine;
using emulated_gpu::Nanoseconds;

namespace {

struct Watch {
  DeviceMemory* memory;
  DeviceMemory::Watch peak;
};

}  // namespace

extern "C" {

void emulated_gpu_configure(int count, const int64_t* memory_limits,
                            double gigabytes_per_second, double latency_us,
                            double pageable_gigabytes_per_second,
                            int peer_access) {
  Machine::Get().Configure(
      std::vector<int64_t>(memory_limits, memory_limits + count),
      {gigabytes_per_second, latency_us, pageable_gigabytes_per_second,
       peer_access != 0});
}

void emulated_gpu_set_memory_limit(int device, int64_t bytes) {
  Machine::Get().device(device).memory.set_limit(bytes);
}

void emulated_gpu_stats(int device, EmulatedGpuStats* stats) {
  emulated_gpu::Device& d = Machine::Get().device(device);
  const emulated_gpu::MemoryCounts memory = d.memory.Counts();
  *stats = {Nanoseconds(d.compute.Read()),
            Nanoseconds(d.copy.Read()),
            d.bytes_in,
            d.bytes_out,
            d.bytes_pageable,
            memory.live,
            memory.peak,
            memory.limit};
}

void* emulated_gpu_begin_watch(int device) {
  DeviceMemory& memory = Machine::Get().device(device).memory;
  return new Watch{&memory, memory.BeginWatch()};
}

int64_t emulated_gpu_watched_peak(void* watch) {
  auto* w = static_cast<Watch*>(watch);
  return w->memory->Peak(w->peak);
}

void emulated_gpu_end_watch(void* watch) {
  auto* w = static_cast<Watch*>(watch);
  w->memory->EndWatch(w->peak);
  delete w;
}

}  // extern "C"

#include "machine.h"

#include <algorithm>
#include <thread>

#include "stream.h"

#ifdef __linux__
#include <sys/prctl.h>
#endif

namespace emulated_gpu {

void WakeUpPrecisely() {
#ifdef __linux__
  prctl(PR_SET_TIMERSLACK, 1000);  // nanoseconds; 50 times as many otherwise
#endif
}

Duration Account::Read() const {
  const Time now = Clock::now();
  std::lock_guard<std::mutex> lock(mutex_);
  Duration total = closed_;
  for (const Span& span : open_) {
    total += std::max(Duration(0), std::min(now, span.end) - span.begin);
  }
  return total;
}

Device::Device(int ordinal, int64_t memory_limit)
    : bus_id("0000:00:0" + std::to_string(ordinal + 1) + ".0"),
      memory(memory_limit) {}

void Device::Drain() {
  // Outside the lock: a task may itself create or destroy a stream.
  std::set<std::shared_ptr<SP_Stream_st>> waited;
  {
    std::lock_guard<std::mutex> lock(mutex);
    waited = streams;
  }
  for (const auto& stream : waited) stream->Drain();
}

Machine& Machine::Get() {
  static Machine* machine = new Machine;
  return *machine;
}

void Machine::Configure(const std::vector<int64_t>& memory_limits,
                        const Links& links) {
  for (int64_t limit : memory_limits) {
    devices_.push_back(std::make_unique<Device>(device_count(), limit));
  }
  figures_ = links;
}

Device* Machine::Owner(const void* address) {
  for (const auto& device : devices_) {
    if (device->memory.Owns(address)) return device.get();
  }
  return nullptr;
}

void Machine::Stage(Device* device, const void* from, uint64_t bytes) {
  if (pinned.Contains(from) || Owner(from) != nullptr) return;
  device->bytes_pageable += bytes;
  std::this_thread::sleep_for(
      Seconds(1e-9 * bytes / figures_.pageable_gigabytes_per_second));
}

// Up to this size a transfer does not wait for the one that is on the link.
constexpr uint64_t kShortBytes = 64 << 10;

// A link carries one transfer at a time in each direction, and a transfer
// between two devices crosses the sender's and the receiver's link: both at the
// same time, or one after the other where the host's memory is between them.
//
// A short one goes between the packets of a longer one, and what is booked
// after it comes later by as much: a scalar that is read or written does not
// wait until a batch has arrived.
Machine::Booking Machine::Book(Device* from, Device* to, uint64_t bytes,
                               Time earliest) {
  const Duration once = Seconds(1e-6 * figures_.latency_us +
                                1e-9 * bytes / figures_.gigabytes_per_second);
  const bool by_the_host =
      from != nullptr && to != nullptr && !figures_.peer_access;
  const Duration way_to_host = by_the_host ? once : Duration(0);
  std::lock_guard<std::mutex> lock(links_);
  if (bytes <= kShortBytes) {
    const Time arrives = earliest + way_to_host;
    if (from != nullptr) {
      from->out_free_at = std::max(earliest, from->out_free_at) + once;
    }
    if (to != nullptr) to->in_free_at = std::max(arrives, to->in_free_at) + once;
    return {{earliest, earliest + once}, {arrives, arrives + once}};
  }
  if (from != nullptr) earliest = std::max(earliest, from->out_free_at);
  Time arrives = earliest + way_to_host;
  if (to != nullptr) arrives = std::max(arrives, to->in_free_at);
  const Time leaves = by_the_host ? earliest : arrives;
  const Booking booked{{leaves, leaves + once}, {arrives, arrives + once}};
  if (from != nullptr) from->out_free_at = booked.out.end;
  if (to != nullptr) to->in_free_at = booked.in.end;
  return booked;
}

}  // namespace emulated_gpu

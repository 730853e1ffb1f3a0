#include "machine.h"

#include <algorithm>

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
                        double gigabytes_per_second, double latency_us) {
  for (int64_t limit : memory_limits) {
    devices_.push_back(std::make_unique<Device>(device_count(), limit));
  }
  seconds_per_byte_ = 1e-9 / gigabytes_per_second;
  latency_ = 1e-6 * latency_us;
}

Device* Machine::Owner(const void* address) {
  for (const auto& device : devices_) {
    if (device->memory.Owns(address)) return device.get();
  }
  return nullptr;
}

// Up to this size a transfer does not wait for the one that is on the link.
constexpr uint64_t kShortBytes = 64 << 10;

// A link carries one transfer at a time in each direction, and a transfer
// between two devices crosses the sender's and the receiver's link.  A short
// one goes between the packets of a longer one, and what is booked after it
// comes later by as much: a scalar that is read or written does not wait until
// a batch has arrived.
Account::Span Machine::Book(Device* from, Device* to, uint64_t bytes,
                            Time earliest) {
  const Duration once = Seconds(latency_ + bytes * seconds_per_byte_);
  std::lock_guard<std::mutex> lock(links_);
  if (bytes <= kShortBytes) {
    if (from != nullptr) {
      from->out_free_at = std::max(earliest, from->out_free_at) + once;
    }
    if (to != nullptr) to->in_free_at = std::max(earliest, to->in_free_at) + once;
    return {earliest, earliest + once};
  }
  Time begin = earliest;
  if (from != nullptr) begin = std::max(begin, from->out_free_at);
  if (to != nullptr) begin = std::max(begin, to->in_free_at);
  const Time end = begin + once;
  if (from != nullptr) from->out_free_at = end;
  if (to != nullptr) to->in_free_at = end;
  return {begin, end};
}

}  // namespace emulated_gpu

// The emulated machine: its devices, their memory and accounts, and the links
// between them.  Nothing here knows of TensorFlow.
#ifndef DUAL_DEVICE_STRATEGY_EMULATION_MACHINE_H_
#define DUAL_DEVICE_STRATEGY_EMULATION_MACHINE_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "memory_pool.h"

struct SP_Stream_st;

namespace emulated_gpu {

using Clock = std::chrono::steady_clock;
using Time = Clock::time_point;
using Duration = Clock::duration;

constexpr int kMaxDevices = 8;

inline Duration Seconds(double seconds) {
  return std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(seconds));
}

inline int64_t Nanoseconds(Duration duration) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count();
}

// For threads that sleep: wake up within microseconds of the time asked for.
void WakeUpPrecisely();

// Time spent on something, including what is still under way when it is read.
class Account {
 public:
  struct Span {
    Time begin, end;
  };
  using Open = std::list<Span>::iterator;

  // `end` is when the work will end, as far as that is known beforehand.
  Open Begin(Time begin, Time end) {
    std::lock_guard<std::mutex> lock(mutex_);
    return open_.insert(open_.end(), {begin, end});
  }

  void End(Open span) {
    std::lock_guard<std::mutex> lock(mutex_);
    closed_ += span->end - span->begin;
    open_.erase(span);
  }

  void Add(Duration spent) {
    std::lock_guard<std::mutex> lock(mutex_);
    closed_ += spent;
  }

  Duration Read() const;

 private:
  mutable std::mutex mutex_;
  std::list<Span> open_;   // guarded by mutex_
  Duration closed_{0};     // guarded by mutex_
};

struct Device {
  Device(int ordinal, int64_t memory_limit);

  // Waits for all work enqueued on the device's streams.
  void Drain();

  const std::string bus_id;
  DeviceMemory memory;
  Account compute, copy;
  std::atomic<int64_t> bytes_in{0}, bytes_out{0};
  std::atomic<int64_t> bytes_pageable{0};  // of bytes_in
  Time in_free_at, out_free_at;  // guarded by Machine::links
  std::mutex mutex;
  std::set<std::shared_ptr<SP_Stream_st>> streams;  // guarded by mutex
};

// Host memory that the devices' link can read by itself (page-locked).
class PinnedMemory {
 public:
  void Add(const void* begin, uint64_t bytes) {
    std::lock_guard<std::mutex> lock(mutex_);
    ranges_[reinterpret_cast<uintptr_t>(begin)] = bytes;
  }

  void Remove(const void* begin) {
    std::lock_guard<std::mutex> lock(mutex_);
    ranges_.erase(reinterpret_cast<uintptr_t>(begin));
  }

  bool Contains(const void* address) const {
    const auto at = reinterpret_cast<uintptr_t>(address);
    std::lock_guard<std::mutex> lock(mutex_);
    auto range = ranges_.upper_bound(at);
    return range != ranges_.begin() &&
           at - std::prev(range)->first < std::prev(range)->second;
  }

 private:
  mutable std::mutex mutex_;
  std::map<uintptr_t, uint64_t> ranges_;  // guarded by mutex_
};

// The figures of the links, the same for each device and direction.
struct Links {
  double gigabytes_per_second = 0, latency_us = 0;
  // How fast a thread of the host copies memory into a pinned buffer.
  double pageable_gigabytes_per_second = 0;
  // Whether devices reach each other's memory, or only by way of the host's.
  bool peer_access = true;
};

class Machine {
 public:
  // Never destroyed: stream threads may still run while the process exits.
  static Machine& Get();

  // To be called once, before TensorFlow asks for devices.
  void Configure(const std::vector<int64_t>& memory_limits, const Links& links);

  // The device whose memory an address lies in, or null for host memory.
  Device* Owner(const void* address);

  // Lets one stream's copy cross the links between two devices, or a device
  // and the host (null): books the links from `earliest` on, calls `wait` with
  // the time when the copy ends, and then counts it at both ends.
  template <typename Wait>
  void Transfer(Device* from, Device* to, uint64_t bytes, Time earliest,
                Wait wait) {
    const Booking booked = Book(from, to, bytes, earliest);
    Account::Open out, in;
    if (from != nullptr) out = from->copy.Begin(booked.out.begin, booked.out.end);
    if (to != nullptr) in = to->copy.Begin(booked.in.begin, booked.in.end);
    wait(booked.in.end);
    if (from != nullptr) {
      from->copy.End(out);
      from->bytes_out += bytes;
    }
    if (to != nullptr) {
      to->copy.End(in);
      to->bytes_in += bytes;
    }
  }

  // What comes before a copy to `device` from host memory that is not pinned:
  // as in CUDA builds of TensorFlow, the thread that wants the copy first moves
  // the bytes to a pinned buffer.
  void Stage(Device* device, const void* from, uint64_t bytes);

  PinnedMemory pinned;

  int device_count() const { return static_cast<int>(devices_.size()); }
  Device& device(int ordinal) { return *devices_[ordinal]; }

 private:
  // When a transfer is on the sender's and on the receiver's link.
  struct Booking {
    Account::Span out, in;
  };
  Booking Book(Device* from, Device* to, uint64_t bytes, Time earliest);

  std::vector<std::unique_ptr<Device>> devices_;
  Links figures_;
  std::mutex links_;
};

}  // namespace emulated_gpu

#endif  // DUAL_DEVICE_STRATEGY_EMULATION_MACHINE_H_

// Device memory: address ranges that nothing but a device uses, counted and
// limited.
#ifndef DUAL_DEVICE_STRATEGY_EMULATION_MEMORY_POOL_H_
#define DUAL_DEVICE_STRATEGY_EMULATION_MEMORY_POOL_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_map>
#include <utility>

namespace emulated_gpu {

struct MemoryCounts {
  int64_t limit = 0, live = 0, peak = 0, largest = 0, allocations = 0;
};

class DeviceMemory;

// A range of addresses that blocks are taken from, best fit first.
//
// A freed block can be taken again at once, although work enqueued earlier may
// still use it, because whoever takes it enqueues later on the same stream:
// TensorFlow sees to that.  So there is one pool per TensorFlow device (its
// compute stream), and freed blocks never go back to the host's allocator.
class MemoryPool {
 public:
  // Null if the memory does not become free within `patience`.
  void* Allocate(uint64_t bytes, std::chrono::milliseconds patience);
  void Free(void* address);

  MemoryCounts Counts() const;
  void ClearPeak();
  int64_t limit() const { return limit_; }

 private:
  friend class DeviceMemory;
  MemoryPool(DeviceMemory* memory, int64_t limit)
      : memory_(memory), limit_(limit) {}

  bool Reserve();
  void* Take(uint64_t bytes);
  void AddFree(uintptr_t begin, uint64_t bytes);

  DeviceMemory* const memory_;
  const int64_t limit_;
  // Set once by Reserve(), then read by copies without a lock.
  std::atomic<uintptr_t> begin_{0}, end_{0};
  // The rest is guarded by DeviceMemory::mutex_.
  MemoryCounts counts_;
  std::map<uintptr_t, uint64_t> free_by_address_;
  std::set<std::pair<uint64_t, uintptr_t>> free_by_size_;
  std::unordered_map<uintptr_t, uint64_t> taken_;
};

// All memory of one device: one limit, one count, a pool for each user.
class DeviceMemory {
 public:
  explicit DeviceMemory(int64_t limit) : limit_(limit) {}

  // The pool lives as long as the device.
  MemoryPool* AddPool(int64_t limit);
  // The pool of the plugin interface, whose user waits before it frees.
  MemoryPool* plugin_pool();

  bool Owns(const void* address);
  MemoryCounts Counts() const;
  int64_t limit() const { return limit_; }
  void set_limit(int64_t limit) { limit_ = limit; }

  // The highest count of live bytes between two points in time.
  using Watch = std::list<int64_t>::iterator;
  Watch BeginWatch();
  int64_t Peak(Watch watch) const;
  void EndWatch(Watch watch);

 private:
  friend class MemoryPool;
  void Grow(int64_t bytes);

  std::atomic<int64_t> limit_;
  mutable std::mutex mutex_;
  std::condition_variable returned_;
  int64_t live_ = 0, peak_ = 0;     // guarded by mutex_
  std::list<int64_t> watches_;      // guarded by mutex_
  MemoryPool* plugin_pool_ = nullptr;
  // Only ever added to, so that Owns() can walk along without the lock.
  struct Node {
    std::unique_ptr<MemoryPool> pool;
    Node* next;
  };
  std::atomic<Node*> pools_{nullptr};
};

}  // namespace emulated_gpu

#endif  // DUAL_DEVICE_STRATEGY_EMULATION_MEMORY_POOL_H_

#include "memory_pool.h"

#include <sys/mman.h>

#include <algorithm>

namespace emulated_gpu {
namespace {

constexpr uint64_t kAlignment = 256;  // as TensorFlow's allocator for GPUs

// Addresses reserved for each byte of the limit.  Memory is counted by the
// bytes that are live, so a pool must not run out of addresses because of the
// gaps between its blocks.  Untouched addresses take nothing from the host.
constexpr uint64_t kAddressesPerByte = 4;

}  // namespace

bool MemoryPool::Reserve() {
  const uint64_t size = limit_ * kAddressesPerByte + kAlignment;
  void* range = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) return false;
  const uintptr_t begin = reinterpret_cast<uintptr_t>(range);
  end_ = begin + size;
  begin_ = begin;
  AddFree(begin, size / kAlignment * kAlignment);
  return true;
}

void* MemoryPool::Allocate(uint64_t bytes, std::chrono::milliseconds patience) {
  if (bytes > static_cast<uint64_t>(limit_)) return nullptr;
  const uint64_t rounded =
      std::max<uint64_t>(1, (bytes + kAlignment - 1) / kAlignment) * kAlignment;
  const auto deadline = std::chrono::steady_clock::now() + patience;
  std::unique_lock<std::mutex> lock(memory_->mutex_);
  void* address = Take(rounded);
  while (address == nullptr) {
    const auto woken = memory_->returned_.wait_until(lock, deadline);
    address = Take(rounded);
    if (woken == std::cv_status::timeout) break;
  }
  return address;
}

void* MemoryPool::Take(uint64_t bytes) {
  if (counts_.live + static_cast<int64_t>(bytes) > limit_ ||
      memory_->live_ + static_cast<int64_t>(bytes) > memory_->limit_) {
    return nullptr;
  }
  if (begin_ == 0 && !Reserve()) return nullptr;
  const auto best = free_by_size_.lower_bound({bytes, 0});
  if (best == free_by_size_.end()) return nullptr;
  const auto [size, address] = *best;
  free_by_size_.erase(best);
  free_by_address_.erase(address);
  if (size > bytes) AddFree(address + bytes, size - bytes);
  taken_[address] = bytes;
  counts_.live += bytes;
  counts_.peak = std::max(counts_.peak, counts_.live);
  counts_.largest = std::max(counts_.largest, static_cast<int64_t>(bytes));
  ++counts_.allocations;
  memory_->Grow(bytes);
  return reinterpret_cast<void*>(address);
}

void MemoryPool::AddFree(uintptr_t begin, uint64_t bytes) {
  free_by_address_[begin] = bytes;
  free_by_size_.insert({bytes, begin});
}

void MemoryPool::Free(void* address) {
  if (address == nullptr) return;
  {
    std::lock_guard<std::mutex> lock(memory_->mutex_);
    const auto taken = taken_.find(reinterpret_cast<uintptr_t>(address));
    uintptr_t begin = taken->first;
    uint64_t bytes = taken->second;
    taken_.erase(taken);
    counts_.live -= bytes;
    memory_->Grow(-static_cast<int64_t>(bytes));
    auto next = free_by_address_.lower_bound(begin);
    if (next != free_by_address_.end() && next->first == begin + bytes) {
      bytes += next->second;
      free_by_size_.erase({next->second, next->first});
      next = free_by_address_.erase(next);
    }
    if (next != free_by_address_.begin()) {
      const auto previous = std::prev(next);
      if (previous->first + previous->second == begin) {
        begin = previous->first;
        bytes += previous->second;
        free_by_size_.erase({previous->second, previous->first});
        free_by_address_.erase(previous);
      }
    }
    AddFree(begin, bytes);
  }
  memory_->returned_.notify_all();
}

MemoryCounts MemoryPool::Counts() const {
  std::lock_guard<std::mutex> lock(memory_->mutex_);
  MemoryCounts counts = counts_;
  counts.limit = limit_;
  return counts;
}

void MemoryPool::ClearPeak() {
  std::lock_guard<std::mutex> lock(memory_->mutex_);
  counts_.peak = counts_.live;
}

MemoryPool* DeviceMemory::AddPool(int64_t limit) {
  std::lock_guard<std::mutex> lock(mutex_);
  Node* node = new Node{std::unique_ptr<MemoryPool>(new MemoryPool(this, limit)),
                        pools_.load()};
  pools_ = node;
  return node->pool.get();
}

MemoryPool* DeviceMemory::plugin_pool() {
  static std::mutex once;
  std::lock_guard<std::mutex> lock(once);
  if (plugin_pool_ == nullptr) plugin_pool_ = AddPool(limit_);
  return plugin_pool_;
}

bool DeviceMemory::Owns(const void* address) {
  const uintptr_t wanted = reinterpret_cast<uintptr_t>(address);
  for (Node* node = pools_; node != nullptr; node = node->next) {
    const uintptr_t begin = node->pool->begin_;
    if (begin != 0 && begin <= wanted && wanted < node->pool->end_) return true;
  }
  return false;
}

MemoryCounts DeviceMemory::Counts() const {
  std::lock_guard<std::mutex> lock(mutex_);
  MemoryCounts counts;
  counts.limit = limit_;
  counts.live = live_;
  counts.peak = peak_;
  return counts;
}

DeviceMemory::Watch DeviceMemory::BeginWatch() {
  std::lock_guard<std::mutex> lock(mutex_);
  return watches_.insert(watches_.end(), live_);
}

int64_t DeviceMemory::Peak(Watch watch) const {
  std::lock_guard<std::mutex> lock(mutex_);
  return *watch;
}

void DeviceMemory::EndWatch(Watch watch) {
  std::lock_guard<std::mutex> lock(mutex_);
  watches_.erase(watch);
}

void DeviceMemory::Grow(int64_t bytes) {
  live_ += bytes;
  peak_ = std::max(peak_, live_);
  for (int64_t& highest : watches_) highest = std::max(highest, live_);
}

}  // namespace emulated_gpu

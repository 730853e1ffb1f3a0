#include "stream.h"

#include <algorithm>
#include <utility>

namespace emulated_gpu {

void Recording::Complete(Time time) {
  std::lock_guard<std::mutex> lock(mutex_);
  time_ = time;
  done_ = true;
  completed_.notify_all();
}

Time Recording::Wait() {
  std::unique_lock<std::mutex> lock(mutex_);
  completed_.wait(lock, [this] { return done_; });
  return time_;
}

bool Recording::done() {
  std::lock_guard<std::mutex> lock(mutex_);
  return done_;
}

}  // namespace emulated_gpu

using emulated_gpu::Clock;
using emulated_gpu::Recording;

std::shared_ptr<Recording> SP_Event_st::Renew() {
  std::lock_guard<std::mutex> lock(mutex_);
  return recording_ = std::make_shared<Recording>();
}

std::shared_ptr<Recording> SP_Event_st::Current() {
  std::lock_guard<std::mutex> lock(mutex_);
  return recording_;
}

std::shared_ptr<SP_Stream_st> SP_Stream_st::Start(emulated_gpu::Device* device) {
  std::shared_ptr<SP_Stream_st> stream(new SP_Stream_st(device));
  {
    std::lock_guard<std::mutex> lock(device->mutex);
    device->streams.insert(stream);
  }
  std::thread([stream] { stream->Work(); }).detach();
  return stream;
}

void SP_Stream_st::Stop() {
  const std::shared_ptr<SP_Stream_st> self = shared_from_this();
  {
    std::lock_guard<std::mutex> lock(device->mutex);
    device->streams.erase(self);
  }
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
}

void SP_Stream_st::Push(Task task) {
  std::lock_guard<std::recursive_mutex> turn(turn_);
  Enqueue(std::move(task));
  if (running_here_) Drain();  // we are part of that work, and next in turn
}

void SP_Stream_st::RunHere(const Task& task) {
  std::lock_guard<std::recursive_mutex> turn(turn_);
  Drain();
  // Not true already unless the task runs another one within its turn.
  const bool outer = std::exchange(running_here_, true);
  const emulated_gpu::Time begin = Clock::now();
  task();
  if (!outer) device->compute.Add(Clock::now() - begin);
  running_here_ = outer;
}

void SP_Stream_st::Drain() {
  const auto reached = std::make_shared<Recording>();
  {
    // One lock for both: a stopped stream's worker ends once it has no work.
    std::lock_guard<std::mutex> lock(mutex_);
    if (std::this_thread::get_id() == worker_) return;
    if (!busy_ && queue_.empty()) return;
    queue_.push_back({Clock::now(), [=] { reached->Complete(clock_); }});
  }
  changed_.notify_one();
  reached->Wait();
}

void SP_Stream_st::AdvanceTo(emulated_gpu::Time end) {
  clock_ = std::max(clock_, end);
  std::this_thread::sleep_until(clock_);
}

void SP_Stream_st::Compute(emulated_gpu::Duration duration) {
  const auto span = device->compute.Begin(clock_, clock_ + duration);
  AdvanceTo(clock_ + duration);
  device->compute.End(span);
}

void SP_Stream_st::Enqueue(Task task) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    queue_.push_back({Clock::now(), std::move(task)});
  }
  changed_.notify_one();
}

void SP_Stream_st::Work() {
  emulated_gpu::WakeUpPrecisely();
  std::unique_lock<std::mutex> lock(mutex_);
  worker_ = std::this_thread::get_id();
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    Queued next = std::move(queue_.front());
    queue_.pop_front();
    busy_ = true;
    lock.unlock();
    clock_ = std::max(clock_, next.at);
    next.task();
    next.task = nullptr;  // release what it holds
    lock.lock();
    busy_ = false;
  }
}

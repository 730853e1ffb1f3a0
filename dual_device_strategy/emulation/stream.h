// Streams and events of the emulated devices.
#ifndef DUAL_DEVICE_STRATEGY_EMULATION_STREAM_H_
#define DUAL_DEVICE_STRATEGY_EMULATION_STREAM_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "machine.h"
#include "tensorflow/c/experimental/stream_executor/stream_executor.h"

namespace emulated_gpu {

// One recording of an event.  Streams share it with the event, so an event may
// be recorded anew or destroyed while streams still wait for its old recording.
class Recording {
 public:
  void Complete(Time time);
  Time Wait();
  bool done();

 private:
  std::mutex mutex_;
  std::condition_variable completed_;
  bool done_ = false;
  Time time_;
};

}  // namespace emulated_gpu

struct SP_Event_st {
 public:
  std::shared_ptr<emulated_gpu::Recording> Renew();
  // Null if the event was never recorded.
  std::shared_ptr<emulated_gpu::Recording> Current();

 private:
  std::mutex mutex_;
  std::shared_ptr<emulated_gpu::Recording> recording_;
};

// Runs tasks one after the other, in the order they were enqueued, on a thread
// of its own.
//
// A stream keeps its own clock, the emulated time its last task ended.  A task
// begins there, or when it was enqueued if that is later, but not when the
// thread happened to wake up: the operating system's late wake-ups must not add
// up over a chain of short tasks.
struct SP_Stream_st : public std::enable_shared_from_this<SP_Stream_st> {
 public:
  using Task = std::function<void()>;

  static std::shared_ptr<SP_Stream_st> Start(emulated_gpu::Device* device);

  // Lets the thread finish what is enqueued and end, without waiting for it:
  // the caller may be a task that what is enqueued depends on.
  void Stop();

  void Push(Task task);

  // Runs the task on this thread, in turn, and makes others wait that want to
  // enqueue work meanwhile.  They must: TensorFlow frees the memory of work as
  // soon as that is enqueued, trusting that whoever takes the memory next
  // comes later in the stream.  Were work enqueued behind this task, the task
  // could allocate that work's memory and yet use it before.
  void RunHere(const Task& task);

  // Waits for everything enqueued so far, unless called by part of it.
  void Drain();

  // The next three are for use in a task.
  emulated_gpu::Time clock() const { return clock_; }
  // Lets emulated time pass until `end`.
  void AdvanceTo(emulated_gpu::Time end);
  // Keeps the device computing.
  void Compute(emulated_gpu::Duration duration);

  emulated_gpu::Device* const device;

 private:
  struct Queued {
    emulated_gpu::Time at;
    Task task;
  };

  explicit SP_Stream_st(emulated_gpu::Device* owner) : device(owner) {}
  void Enqueue(Task task);
  void Work();

  // Held to enqueue, and throughout RunHere().  Recursive because what runs
  // there may enqueue work itself.
  std::recursive_mutex turn_;
  bool running_here_ = false;  // guarded by turn_
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Queued> queue_;              // guarded by mutex_
  bool busy_ = false, stopping_ = false;  // guarded by mutex_
  std::thread::id worker_;                // guarded by mutex_
  emulated_gpu::Time clock_;              // the worker's own
};

#endif  // DUAL_DEVICE_STRATEGY_EMULATION_STREAM_H_

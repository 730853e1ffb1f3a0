// What the emulated GPUs need of TensorFlow's C++ classes, beside the plugin.
#ifndef DUAL_DEVICE_STRATEGY_EMULATION_TENSORFLOW_DEVICE_H_
#define DUAL_DEVICE_STRATEGY_EMULATION_TENSORFLOW_DEVICE_H_

#include "stream.h"
#include "tensorflow/c/kernels.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace emulated_gpu {

// Makes TensorFlow create the devices with memory of their own pools.
void RegisterDevices();

// Makes TensorFlow create CPU devices that have pinned memory to give.
void RegisterHostDevice();

// Returns the number of kernels.
int RegisterCpuKernels();
void RegisterTimedOpOnGpu();

// The compute stream of the device an op runs on.
inline SP_Stream ComputeStream(tensorflow::OpKernelContext* context) {
  TF_Status* status = TF_NewStatus();
  SP_Stream stream =
      TF_GetStream(reinterpret_cast<TF_OpKernelContext*>(context), status);
  if (TF_GetCode(status) != TF_OK) stream = nullptr;
  TF_DeleteStatus(status);
  return stream;
}

}  // namespace emulated_gpu

#endif  // DUAL_DEVICE_STRATEGY_EMULATION_TENSORFLOW_DEVICE_H_

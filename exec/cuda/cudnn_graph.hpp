// A graph of cuDNN's backend API: tensors and operations as descriptors, an engine of its heuristics' choice, a plan that runs. cuDNN is
// loaded at run time: half a gigabyte that nobody needs who has no fused attention. Internal; plain C++.
#pragma once

#include <cudnn_graph.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace orrery::cuda {

// The library's calls; throws std::runtime_error with the reason where it cannot be loaded.
class Cudnn {
  public:
    Cudnn();
    std::string version() const;

    cudnnStatus_t (*create)(cudnnHandle_t*) = nullptr;
    cudnnStatus_t (*destroy)(cudnnHandle_t) = nullptr;
    cudnnStatus_t (*set_stream)(cudnnHandle_t, cudaStream_t) = nullptr;
    cudnnStatus_t (*make)(cudnnBackendDescriptorType_t, cudnnBackendDescriptor_t*) = nullptr;
    cudnnStatus_t (*drop)(cudnnBackendDescriptor_t) = nullptr;
    cudnnStatus_t (*set)(cudnnBackendDescriptor_t, cudnnBackendAttributeName_t, cudnnBackendAttributeType_t, std::int64_t,
                         const void*) = nullptr;
    cudnnStatus_t (*get)(cudnnBackendDescriptor_t, cudnnBackendAttributeName_t, cudnnBackendAttributeType_t, std::int64_t, std::int64_t*,
                         void*) = nullptr;
    cudnnStatus_t (*finalize)(cudnnBackendDescriptor_t) = nullptr;
    cudnnStatus_t (*execute)(cudnnHandle_t, cudnnBackendDescriptor_t, cudnnBackendDescriptor_t) = nullptr;
    const char* (*text)(cudnnStatus_t) = nullptr;
    void (*last)(char*, std::size_t) = nullptr;
    std::size_t (*version_number)() = nullptr;

    void check(cudnnStatus_t s, const char* what) const;
};

using Dims = std::array<std::int64_t, 4>; // batch, heads, rows, columns
Dims dense(const Dims& dims);             // strides of a tensor without gaps

// A device that is not here, by its properties as JSON: heuristics and plans up to the loading of kernels need no more. Empty: the device
// of the handle.
struct GraphTarget {
    cudnnHandle_t handle = nullptr;
    std::string device_json{};
};

class CudnnGraph {
  public:
    using Tensor = std::int64_t; // its unique id

    CudnnGraph(const Cudnn& lib, GraphTarget target);
    ~CudnnGraph();
    CudnnGraph(const CudnnGraph&) = delete;
    CudnnGraph& operator=(const CudnnGraph&) = delete;

    Tensor tensor(const Dims& dims, const Dims& strides, cudnnDataType_t type); // in memory
    Tensor between(const Dims& dims, cudnnDataType_t type);                     // never in memory
    Tensor between(const Dims& dims, const Dims& strides, cudnnDataType_t type);
    Tensor scalar(); // a float handed over with each call

    Tensor pointwise(cudnnPointwiseMode_t mode, Tensor x, Tensor y, Tensor b = -1, Tensor t = -1);
    Tensor index(Tensor like, Tensor y, std::int64_t axis);
    Tensor matmul(Tensor a, Tensor b, Tensor c);
    Tensor reduce(cudnnReduceTensorOp_t op, Tensor x, Tensor y);
    Tensor reshape(Tensor x, Tensor y);

    int choose(); // asks the heuristics; how many engines take the graph
    // Makes the plan of the first that can be made. Throws with what the last one said; a status, to tell a pattern that is not known from
    // kernels that cannot be loaded.
    cudnnStatus_t finish(std::string& said);
    std::int64_t workspace() const { return workspace_; }
    void run(cudaStream_t stream, const std::vector<std::pair<Tensor, void*>>& data, void* workspace) const;

  private:
    cudnnBackendDescriptor_t make(cudnnBackendDescriptorType_t type);
    void set(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t value);
    template <class T>
    void set(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const std::vector<T>& values);
    Tensor add_tensor(const Dims& dims, const Dims& strides, cudnnDataType_t type, bool in_memory, bool by_value);
    cudnnBackendDescriptor_t operation(cudnnBackendDescriptorType_t type);
    cudnnBackendDescriptor_t of(Tensor t) const { return tensors_.at(static_cast<std::size_t>(t)); }

    const Cudnn& lib_;
    GraphTarget target_;
    std::vector<cudnnBackendDescriptor_t> all_, tensors_, operations_, configurations_;
    std::vector<cudnnDataType_t> types_;
    cudnnBackendDescriptor_t device_ = nullptr, graph_ = nullptr, plan_ = nullptr;
    std::int64_t workspace_ = 0;
};

} // namespace orrery::cuda

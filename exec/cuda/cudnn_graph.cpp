#include "exec/cuda/cudnn_graph.hpp"

#include <dlfcn.h>

#include <stdexcept>

namespace orrery::cuda {

Cudnn::Cudnn() {
    void* library = nullptr;
    for (const char* name : {"libcudnn.so.9", "/usr/local/cuda/lib64/libcudnn.so.9"})
        if (!library) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library) throw std::runtime_error(std::string("cuDNN cannot be loaded: ") + dlerror());
    const auto find = [&](auto& slot, const char* name) {
        slot = reinterpret_cast<std::remove_reference_t<decltype(slot)>>(dlsym(library, name));
        if (!slot) throw std::runtime_error(std::string("this cuDNN has no ") + name);
    };
    find(create, "cudnnCreate");
    find(destroy, "cudnnDestroy");
    find(set_stream, "cudnnSetStream");
    find(make, "cudnnBackendCreateDescriptor");
    find(drop, "cudnnBackendDestroyDescriptor");
    find(set, "cudnnBackendSetAttribute");
    find(get, "cudnnBackendGetAttribute");
    find(finalize, "cudnnBackendFinalize");
    find(execute, "cudnnBackendExecute");
    find(text, "cudnnGetErrorString");
    find(last, "cudnnGetLastErrorString");
    find(version_number, "cudnnGetVersion");
}

std::string Cudnn::version() const {
    const std::size_t v = version_number();
    return std::to_string(v / 10000) + "." + std::to_string(v / 100 % 100) + "." + std::to_string(v % 100);
}

void Cudnn::check(cudnnStatus_t s, const char* what) const {
    if (s == CUDNN_STATUS_SUCCESS) return;
    std::array<char, 1024> more{};
    last(more.data(), more.size());
    throw std::runtime_error(std::string("cuDNN, ") + what + ": " + text(s) + " " + more.data());
}

Dims dense(const Dims& d) { return {d[1] * d[2] * d[3], d[2] * d[3], d[3], 1}; }

CudnnGraph::CudnnGraph(const Cudnn& lib, GraphTarget target) : lib_(lib), target_(std::move(target)) {
    if (target_.device_json.empty()) return;
    device_ = make(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
    std::vector<char> json(target_.device_json.begin(), target_.device_json.end());
    json.push_back('\0');
    set(device_, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, json);
    lib_.check(lib_.finalize(device_), "a device's properties");
}

CudnnGraph::~CudnnGraph() {
    for (auto it = all_.rbegin(); it != all_.rend(); ++it) lib_.drop(*it);
}

cudnnBackendDescriptor_t CudnnGraph::make(cudnnBackendDescriptorType_t type) {
    cudnnBackendDescriptor_t d = nullptr;
    lib_.check(lib_.make(type, &d), "a descriptor");
    all_.push_back(d);
    return d;
}

void CudnnGraph::set(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t value) {
    lib_.check(lib_.set(d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value), "a part of a descriptor");
}

template <class T>
void CudnnGraph::set(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                     const std::vector<T>& values) {
    lib_.check(lib_.set(d, name, type, static_cast<std::int64_t>(values.size()), values.data()), "an attribute");
}

CudnnGraph::Tensor CudnnGraph::add_tensor(const Dims& dims, const Dims& strides, cudnnDataType_t type, bool in_memory, bool by_value) {
    const auto id = static_cast<Tensor>(tensors_.size());
    const cudnnBackendDescriptor_t d = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    set(d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, std::vector{type});
    set(d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, std::vector(dims.begin(), dims.end()));
    set(d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, std::vector(strides.begin(), strides.end()));
    set(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, std::vector<std::int64_t>{id});
    set(d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, std::vector<std::int64_t>{16});
    const bool is_virtual = !in_memory;
    lib_.check(lib_.set(d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual), "a tensor");
    if (by_value) lib_.check(lib_.set(d, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &by_value), "a tensor");
    lib_.check(lib_.finalize(d), "a tensor");
    tensors_.push_back(d);
    types_.push_back(type);
    return id;
}

CudnnGraph::Tensor CudnnGraph::tensor(const Dims& dims, const Dims& strides, cudnnDataType_t type) {
    return add_tensor(dims, strides, type, true, false);
}
CudnnGraph::Tensor CudnnGraph::between(const Dims& dims, cudnnDataType_t type) { return between(dims, dense(dims), type); }
CudnnGraph::Tensor CudnnGraph::between(const Dims& dims, const Dims& strides, cudnnDataType_t type) {
    return add_tensor(dims, strides, type, false, false);
}
CudnnGraph::Tensor CudnnGraph::scalar() { return add_tensor({1, 1, 1, 1}, {1, 1, 1, 1}, CUDNN_DATA_FLOAT, true, true); }

cudnnBackendDescriptor_t CudnnGraph::operation(cudnnBackendDescriptorType_t type) {
    operations_.push_back(make(type));
    return operations_.back();
}

CudnnGraph::Tensor CudnnGraph::pointwise(cudnnPointwiseMode_t mode, Tensor x, Tensor y, Tensor b, Tensor t) {
    const cudnnBackendDescriptor_t how = make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR),
                                   op = operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    set(how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, std::vector{mode});
    const bool compares = types_.at(static_cast<std::size_t>(y)) == CUDNN_DATA_BOOLEAN;
    set(how, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, std::vector{compares ? CUDNN_DATA_BOOLEAN : CUDNN_DATA_FLOAT});
    lib_.check(lib_.finalize(how), "a pointwise operation");
    set(op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
    set(op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, of(x));
    if (b >= 0) set(op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, of(b));
    if (t >= 0) set(op, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, of(t));
    set(op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, of(y));
    lib_.check(lib_.finalize(op), "a pointwise operation");
    return y;
}

CudnnGraph::Tensor CudnnGraph::index(Tensor like, Tensor y, std::int64_t axis) {
    const cudnnBackendDescriptor_t how = make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR),
                                   op = operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    set(how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, std::vector{CUDNN_POINTWISE_GEN_INDEX});
    set(how, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, std::vector{CUDNN_DATA_FLOAT});
    set(how, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, std::vector{axis});
    lib_.check(lib_.finalize(how), "an index");
    set(op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
    set(op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, of(like));
    set(op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, of(y));
    lib_.check(lib_.finalize(op), "an index");
    return y;
}

CudnnGraph::Tensor CudnnGraph::matmul(Tensor a, Tensor b, Tensor c) {
    const cudnnBackendDescriptor_t how = make(CUDNN_BACKEND_MATMUL_DESCRIPTOR), op = operation(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    set(how, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, std::vector{CUDNN_DATA_FLOAT});
    lib_.check(lib_.finalize(how), "a matrix product");
    set(op, CUDNN_ATTR_OPERATION_MATMUL_ADESC, of(a));
    set(op, CUDNN_ATTR_OPERATION_MATMUL_BDESC, of(b));
    set(op, CUDNN_ATTR_OPERATION_MATMUL_CDESC, of(c));
    set(op, CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
    lib_.check(lib_.finalize(op), "a matrix product");
    return c;
}

CudnnGraph::Tensor CudnnGraph::reduce(cudnnReduceTensorOp_t kind, Tensor x, Tensor y) {
    const cudnnBackendDescriptor_t how = make(CUDNN_BACKEND_REDUCTION_DESCRIPTOR),
                                   op = operation(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    set(how, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, std::vector{kind});
    set(how, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, std::vector{CUDNN_DATA_FLOAT});
    lib_.check(lib_.finalize(how), "a reduction");
    set(op, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, of(x));
    set(op, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, of(y));
    set(op, CUDNN_ATTR_OPERATION_REDUCTION_DESC, how);
    lib_.check(lib_.finalize(op), "a reduction");
    return y;
}

CudnnGraph::Tensor CudnnGraph::reshape(Tensor x, Tensor y) {
    const cudnnBackendDescriptor_t op = operation(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    set(op, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, of(x));
    set(op, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, of(y));
    lib_.check(lib_.finalize(op), "a reshape");
    return y;
}

int CudnnGraph::choose() {
    graph_ = make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    if (target_.handle) set(graph_, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, std::vector{target_.handle});
    set(graph_, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, operations_);
    lib_.check(lib_.finalize(graph_), "the graph");
    const cudnnBackendDescriptor_t heuristics = make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    set(heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph_);
    set(heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, std::vector{CUDNN_HEUR_MODE_A});
    if (device_) set(heuristics, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, device_);
    lib_.check(lib_.finalize(heuristics), "the heuristics");
    std::int64_t count = 0;
    lib_.check(lib_.get(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr), "the heuristics");
    configurations_.clear();
    for (std::int64_t i = 0; i < count; ++i) configurations_.push_back(make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
    if (count > 0)
        lib_.check(
            lib_.get(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &count, configurations_.data()),
            "the heuristics");
    configurations_.resize(count);
    return static_cast<int>(count);
}

cudnnStatus_t CudnnGraph::finish(std::string& said) {
    cudnnStatus_t status = CUDNN_STATUS_NOT_SUPPORTED;
    said = "no engine takes the graph";
    for (const cudnnBackendDescriptor_t c : configurations_) {
        const cudnnBackendDescriptor_t plan = make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
        if (target_.handle) set(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, std::vector{target_.handle});
        if (device_) set(plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, device_);
        set(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, c);
        status = lib_.finalize(plan);
        if (status == CUDNN_STATUS_SUCCESS) {
            std::int64_t got = 0;
            lib_.check(lib_.get(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &got, &workspace_), "the workspace");
            plan_ = plan;
            said.clear();
            return status;
        }
        std::array<char, 1024> more{};
        lib_.last(more.data(), more.size());
        said = std::string(lib_.text(status)) + " " + more.data();
        if (status == CUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER) return status; // it was made, and there is nowhere to load it
    }
    return status;
}

void CudnnGraph::run(cudaStream_t stream, const std::vector<std::pair<Tensor, void*>>& data, void* workspace) const {
    std::vector<std::int64_t> ids;
    std::vector<void*> pointers;
    for (const auto& [id, pointer] : data) {
        ids.push_back(id);
        pointers.push_back(pointer);
    }
    cudnnBackendDescriptor_t pack = nullptr;
    lib_.check(lib_.make(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack), "a call");
    const auto made = [&](cudnnStatus_t s) {
        if (s != CUDNN_STATUS_SUCCESS) lib_.drop(pack);
        lib_.check(s, "a call");
    };
    made(lib_.set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, static_cast<std::int64_t>(ids.size()), ids.data()));
    made(lib_.set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, static_cast<std::int64_t>(pointers.size()),
                  pointers.data()));
    made(lib_.set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace));
    made(lib_.finalize(pack));
    made(lib_.set_stream(target_.handle, stream));
    made(lib_.execute(target_.handle, plan_, pack));
    lib_.drop(pack);
}

} // namespace orrery::cuda

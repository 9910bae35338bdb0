// Checkpoints of a training run: whole logical tensors in pieces, as whoever holds a shard writes them, so that any other strategy or
// number of ranks can go on from them. A checkpoint is there completely or not at all: it is written beside its place, every byte
// flushed, and then renamed. README.md describes the files.
#pragma once

#include "exec/checkpoint/mapped_file.hpp"
#include "topology/units.hpp"

#include "sim/scenario/scenario.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace orrery {

// A part of a logical tensor: of its box `extent` at `offset`, the elements [begin, begin + count) in row-major order of the box.
// A whole tensor has offset 0, extent = shape, begin 0 and count = all its elements.
struct CheckpointPiece {
    std::string tensor;              // "parameters/l0.qkv.weight"
    std::vector<std::int64_t> shape; // of the whole tensor
    std::vector<std::int64_t> offset, extent;
    std::int64_t begin = 0, count = 0;
    DType dtype = DType::fp32;       // fp32, fp64, bf16 or fp16
    const std::byte* data = nullptr; // count elements
};
CheckpointPiece whole(std::string tensor, std::vector<std::int64_t> shape, DType dtype, const std::byte* data);

// Where the run stands, beside its tensors. Facts are the caller's own: what it must find again ("corpus", "scenario").
struct CheckpointState {
    std::int64_t step = 0; // steps done
    std::uint64_t seed = 0;
    std::map<std::string, std::string> facts;
};

struct CheckpointTensor {
    std::vector<std::int64_t> shape;
    DType dtype = DType::fp32;
    std::vector<std::byte> data; // row-major
};
struct Checkpoint {
    CheckpointState state;
    std::map<std::string, CheckpointTensor> tensors;
};

// A checkpoint could not be written: the file, and the system's reason.
struct Unwritten : std::runtime_error {
    using std::runtime_error::runtime_error;
};
// The file of a process of several could not be written, which one of them has said.
struct UnwrittenElsewhere : Unwritten {
    using Unwritten::Unwritten;
};

// Writes folder/step-00000200 and removes all but the newest `keep` others. Throws Unwritten, and leaves nothing half-written that
// load would take (a full disk: what was there before stays).
void save_checkpoint(const std::filesystem::path& folder, const CheckpointState& state, std::span<const CheckpointPiece> pieces,
                     int keep = 2);

// The contents of a part's file.
std::string part_bytes(std::span<const CheckpointPiece> pieces);

// The same in steps, for several processes: each writes its part; when all have (the caller's barrier), one seals.
class CheckpointDraft {
  public:
    CheckpointDraft(const std::filesystem::path& folder, std::int64_t step); // the same arguments in every process
    void write_part(int part, std::span<const CheckpointPiece> pieces) const;
    void seal(const CheckpointState& state, int parts, int keep = 2) const;
    void discard() const; // a process failed: nothing stays
  private:
    std::filesystem::path folder_, draft_, final_;
};

// Step numbers of the complete checkpoints of a folder, ascending; empty where it is not there.
std::vector<std::int64_t> checkpoint_steps(const std::filesystem::path& folder);

// The complete checkpoints that may be resumed, the newest first: those of a folder, or `path` itself where it is one.
std::vector<std::filesystem::path> checkpoints_in(const std::filesystem::path& path);

// Drafts that a run left behind which died while it wrote, and remains of checkpoints that it was removing: removed. No other process may
// be writing there.
void remove_drafts(const std::filesystem::path& folder);

// A checkpoint whose parts are mapped into memory: of its bytes only those are read that somebody asks for.
class CheckpointFiles {
  public:
    // Throws std::runtime_error that names the file: one is missing, or its size or the checksum of its directory is another.
    explicit CheckpointFiles(const std::filesystem::path& folder);

    const CheckpointState& state() const { return state_; }
    std::vector<std::string> names() const;
    // Null: it has no such tensor.
    const std::vector<std::int64_t>* shape(const std::string& tensor) const;
    DType dtype(const std::string& tensor) const;

    // Calls put(place, bytes, n) for runs of elements of `wanted` (its tensor, shape, offset, extent, begin, count): from the place-th of
    // the count on, n elements of type dtype(tensor). wanted.shape may have more rows than the tensor: those are left out. Throws
    // std::runtime_error where a piece of the file is damaged or elements are missing.
    using Put = std::function<void(std::int64_t place, const std::byte* bytes, std::int64_t n)>;
    void read(const CheckpointPiece& wanted, const Put& put) const;

  private:
    struct Piece {
        std::filesystem::path file;
        CheckpointPiece at;     // data: in the mapped file
        std::uint64_t checksum; // of its bytes
        mutable bool checked = false;
    };
    void open_part(const std::filesystem::path& file, std::uint64_t size);

    std::filesystem::path folder_;
    CheckpointState state_;
    std::vector<MappedFile> parts_;
    std::map<std::string, std::vector<Piece>> pieces_;
};

// The newest of a folder, or the one in `path` itself. Throws std::runtime_error: there is none, a piece is missing, sizes or checksums
// are not what was written, pieces leave a gap or disagree on the tensor's shape.
Checkpoint load_checkpoint(const std::filesystem::path& path);

// Writes checkpoints in the background: begin() copies the pieces and returns; the next begin(), or finish(), waits for it and throws what
// went wrong.
class CheckpointWriter {
  public:
    explicit CheckpointWriter(std::filesystem::path folder, int keep = 2) : folder_(std::move(folder)), keep_(keep) {}
    ~CheckpointWriter();
    void begin(const CheckpointState& state, std::span<const CheckpointPiece> pieces);
    void finish();
    void look();                                      // throws what went wrong, where it has already; does not wait
    bool writing() const { return running_.valid(); } // as far as look() has seen
  private:
    std::filesystem::path folder_;
    int keep_;
    std::future<void> running_;
};

} // namespace orrery

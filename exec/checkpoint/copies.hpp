// Checkpoints in memory: each rank's part as a file of its machine's memory (/dev/shm), which outlives the processes, and a copy of it in
// the memory of a peer's machine. A copy costs a step the time to copy its bytes; all else goes on beside the next steps. A restart puts
// the newest step together whose parts are all on some machine: the loss of one machine's memory is no loss of a checkpoint.
#pragma once

#include "exec/checkpoint/checkpoint.hpp"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace orrery {

// The connection of the ranks. In one process that has all of them: ranks = 1, and nothing is called.
struct PeerLink {
    int rank = 0, ranks = 1;
    std::function<void*(int to, const void* data, std::size_t bytes)> send; // both return a request; messages keep their order
    std::function<void*(int from, void* data, std::size_t bytes)> receive;
    std::function<bool(void* request)> done;                                                             // frees a request that is done
    std::function<std::vector<std::vector<std::int64_t>>(const std::vector<std::int64_t>& mine)> gather; // everyone's, as many from each
    double patience_s = 60;                                                                              // for a peer; then LostCopy
};

struct LostCopy : std::runtime_error {
    using std::runtime_error::runtime_error;
}; // a peer did not take or send a part within the patience

// Half of all ranks further: on another machine wherever there are two or more, each filled before the next.
int peer_of(int rank, int ranks);

class MemoryCopies {
  public:
    // folder: of this rank's machine; several ranks may share it. first: the step that the run begins with; what is there of later ones is
    // of a run that was lost, and is removed.
    MemoryCopies(std::filesystem::path folder, PeerLink link, std::int64_t first);
    ~MemoryCopies();
    MemoryCopies(const MemoryCopies&) = delete;
    MemoryCopies& operator=(const MemoryCopies&) = delete;

    // On all ranks at the same step. Waits for the copy before, copies the pieces, and returns. Throws Unwritten (memory is full),
    // LostCopy.
    void begin(const CheckpointState& state, std::span<const CheckpointPiece> pieces);
    void look();   // moves messages on; between steps
    void finish(); // waits until this rank's copies stand

  private:
    struct Copy;
    bool move();
    std::filesystem::path folder_;
    PeerLink link_;
    std::unique_ptr<Copy> running_;
};

// The folder of the newest step of which every part is in some rank's folder, completed in this rank's own, so that load_checkpoint takes
// it; on all ranks the same step. Nothing where there is none. Throws LostCopy, std::runtime_error.
std::optional<std::filesystem::path> gather_copies(const std::filesystem::path& folder, const PeerLink& link);

// "/dev/shm/orrery-0-1f0c..": of this user and that folder of checkpoints.
std::filesystem::path copies_folder(const std::filesystem::path& checkpoints);

} // namespace orrery

// `simrun ingest FILE..`: a cluster from files that describe real machines.
#include "topology/ingest/ingest.hpp"
#include "sim/simrun/command.hpp"

#include <fmt/format.h>

#include <cstdio>

namespace orrery::simrun {

std::string ingest_formats() {
    std::string out;
    for (const ingest::Format& f : ingest::formats()) out += (out.empty() ? "" : ", ") + std::string(f.name);
    return out;
}

namespace {

// Lists what was found, assumed and left out: on standard error, as the cluster itself may go to standard output.
void tell(const ingest::Ingested& result, const Options& options) {
    if (options.quiet) return;
    std::string text;
    for (const std::string& line : result.found) text += line + "\n";
    if (!result.assumed.empty()) text += "assumed, as no file says it:\n";
    for (const ingest::Assumption& a : result.assumed) text += fmt::format("  {} = {}: {}\n", a.field, a.value, a.why);
    for (const std::string& note : result.notes) text += "note: " + note + "\n";
    std::fputs(text.c_str(), stderr);
}

} // namespace

int run_ingest(const std::vector<std::string>& files, const Options& options, const IngestCommand& command) {
    std::vector<ingest::InputFile> inputs;
    for (const std::string& file : files) {
        auto text = read_input(file);
        if (!text) return bad_input;
        inputs.push_back({file, std::move(*text)});
    }
    try {
        const ingest::Ingested result =
            ingest::ingest(inputs, {command.from, command.device, command.network, command.nodes, command.nic_gbit, command.graph});
        if (!deliver(result.cluster, options)) return bad_input;
        tell(result, options);
        return done;
    } catch (const ingest::IngestError& e) {
        complain(e.what());
        return bad_input;
    }
}

} // namespace orrery::simrun

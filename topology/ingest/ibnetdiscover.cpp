// The output of ibnetdiscover: a block a switch or channel adapter, a line a cabled port. Each link stands in the blocks of both ends.
#include "topology/ingest/formats.hpp"
#include "topology/ingest/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace orrery::ingest {

namespace {

using VertexKind = FabricVertex::Kind;

struct End {
    std::string guid, peer; // "S-2c5e..", "H-e09d.."
    int port = 0, peer_port = 0, line = 0;
    double gbit = 0;
};

// Gbit/s of "4xNDR"; nothing where the word is no InfiniBand rate.
std::optional<double> rate_of(std::string_view word) {
    static const std::map<std::string_view, double> lane{{"SDR", 2.5}, {"DDR", 5},  {"QDR", 10},  {"FDR10", 10}, {"FDR", 14},
                                                         {"EDR", 25},  {"HDR", 50}, {"NDR", 100}, {"XDR", 200}};
    const std::size_t x = word.find('x');
    const auto width = whole_number_of(word.substr(0, x));
    if (x == std::string_view::npos || !width || *width < 1 || *width > 12) return std::nullopt;
    const auto found = lane.find(word.substr(x + 1));
    return found == lane.end() ? std::nullopt : std::optional(found->second * *width);
}

std::string_view quoted(std::string_view text) {
    const std::size_t open = text.find('"'), close = text.find('"', open + 1);
    return open == std::string_view::npos || close == std::string_view::npos ? std::string_view{} : text.substr(open + 1, close - open - 1);
}

std::string_view comment(std::string_view text) {
    const std::size_t hash = text.find('#');
    return hash == std::string_view::npos ? std::string_view{} : quoted(text.substr(hash));
}

struct IbReading {
    const InputFile& file;
    FabricFacts facts;
    std::map<std::string, int> vertex; // by guid; -1: an aggregation node, which is left out
    std::map<std::string, int> host;
    std::vector<End> ends;
};

// "Switch 65 "S-.." # "name" .." or "Ca 1 "H-.." # "host mlx5_0"".
std::string open_block(IbReading& r, const TextLine& line, bool is_switch) {
    const std::string guid(quoted(line.text));
    if (guid.size() < 3 || !guid.starts_with(is_switch ? "S-" : "H-"))
        refuse(r.file, line.number,
               fmt::format("a {} needs its guid, as in {}", is_switch ? "Switch" : "Ca", is_switch ? "\"S-2c5eab03\"" : "\"H-e09d7303\""));
    const std::string name(comment(line.text));
    ++r.facts.counts[is_switch ? "switch" : "ca"];
    if (!is_switch && name.find("Aggregation Node") != std::string::npos) {
        ++r.facts.counts["aggregation"];
        r.vertex[guid] = -1;
        return guid;
    }
    FabricVertex v;
    v.kind = is_switch ? VertexKind::fabric_switch : VertexKind::port;
    v.name = name.empty() ? guid : name;
    if (!is_switch) {
        // "host mlx5_0" or "host HCA-1": any other name is a card's own ("MT4129 ConnectX7 ..") and tells no host.
        if (words_of(name).size() != 2) {
            ++r.facts.counts["without_host"];
            r.vertex[guid] = -1;
            return guid;
        }
        const std::string host(v.name.substr(0, v.name.find(' ')));
        const auto [found, fresh] = r.host.try_emplace(host, static_cast<int>(r.facts.hosts.size()));
        if (fresh) r.facts.hosts.push_back(host);
        v.host = found->second;
    }
    if (!r.vertex.emplace(guid, static_cast<int>(r.facts.vertices.size())).second)
        refuse(r.file, line.number, fmt::format("{} stands twice: give one output of ibnetdiscover", shown(guid)));
    r.facts.vertices.push_back(std::move(v));
    return guid;
}

// "[1] "H-.."[1](portguid) # "name" lid 647 4xNDR"; at a Ca "[1](portguid) "S-.."[2] ..".
End read_end(const IbReading& r, const TextLine& line, const std::string& guid) {
    End end;
    end.guid = guid, end.line = line.number;
    const auto number_in = [&](std::size_t open) {
        const std::size_t close = line.text.find(']', open);
        const auto n = open == std::string_view::npos || close == std::string_view::npos
                           ? std::nullopt
                           : whole_number_of(line.text.substr(open + 1, close - open - 1));
        if (!n) refuse(r.file, line.number, "a port's line is [1] \"S-guid\"[2] .. 4xNDR, and this has no port number");
        return *n;
    };
    end.port = number_in(0);
    end.peer = quoted(line.text);
    const std::size_t after = line.text.find('"', line.text.find('"') + 1);
    if (end.peer.empty()) refuse(r.file, line.number, "the line names no peer: it is cut off");
    end.peer_port = number_in(line.text.find('[', after));
    const auto words = words_of(line.text);
    const auto rate = rate_of(words.back());
    if (!rate) refuse(r.file, line.number, fmt::format("\"{}\" is no rate such as 4xNDR: the line is cut off", shown(words.back())));
    end.gbit = *rate;
    return end;
}

// Each link once, from its two ends.
void join_ends(IbReading& r) {
    std::map<std::pair<std::string, int>, const End*> at;
    for (const End& e : r.ends)
        if (!at.emplace(std::pair{e.guid, e.port}, &e).second)
            refuse(r.file, e.line, fmt::format("port {} of {} stands twice", e.port, shown(e.guid)));
    std::size_t one_sided = 0;
    for (const End& e : r.ends) {
        const auto peer = r.vertex.find(e.peer);
        if (peer == r.vertex.end())
            refuse(r.file, e.line, fmt::format("{} is a peer, but has no block of its own: the file is cut off", shown(e.peer)));
        const auto back = at.find({e.peer, e.peer_port});
        if (back == at.end()) {
            ++one_sided;
        } else if (back->second->peer != e.guid || back->second->peer_port != e.port) {
            refuse(r.file, e.line,
                   fmt::format("port {} leads to port {} of {}, and that port leads elsewhere (line {})", e.port, e.peer_port,
                               shown(e.peer), back->second->line));
        } else if (std::pair(e.peer, e.peer_port) < std::pair(e.guid, e.port)) {
            continue; // taken from the other end
        }
        const int a = r.vertex.at(e.guid), b = peer->second;
        if (a >= 0 && b >= 0) r.facts.links.push_back({a, b, e.gbit, -1});
    }
    if (one_sided > 0)
        r.facts.notes.push_back(
            fmt::format("{} in one end's block only", one_sided == 1 ? "1 link stands" : fmt::format("{} links stand", one_sided)));
}

} // namespace

FabricFacts read_ibnetdiscover(const InputFile& file) {
    IbReading r{file, {}, {}, {}, {}};
    r.facts.file = file.name, r.facts.format = "ibnetdiscover", r.facts.network = "infiniband";
    std::string block;
    for (const TextLine& line : lines_of(file.text)) {
        const std::string_view text = line.text;
        if (trimmed(text).empty()) {
            block.clear();
        } else if (text.starts_with("Switch") || text.starts_with("Ca")) {
            block = open_block(r, line, text.starts_with("Switch"));
        } else if (text.starts_with('[')) {
            if (block.empty()) refuse(file, line.number, "a port's line outside of any Switch or Ca: the file is damaged");
            r.ends.push_back(read_end(r, line, block));
            ++r.facts.counts["link_ends"];
        } else if (text.find('=') == std::string_view::npos && !text.starts_with('#') && !text.starts_with("Rt") &&
                   !text.starts_with("DiscoveredSwitch")) {
            refuse(file, line.number, fmt::format("\"{}\" is no line of ibnetdiscover", shown(text)));
        }
    }
    if (r.facts.counts["switch"] == 0)
        refuse(file, 0,
               "no switch in the file: ibnetdiscover saw only its own adapter (a port that is down, or no right to query). Run it as root "
               "on a node of the fabric");
    if (r.facts.hosts.empty()) refuse(file, 0, "no host in the file: it lists switches only. Run ibnetdiscover without -S");
    r.facts.counts["host"] = r.facts.nodes();
    if (const int n = r.facts.counts["without_host"]; n > 0)
        r.facts.notes.push_back(
            fmt::format("{} left out: no host's name in theirs", n == 1 ? "1 adapter is" : fmt::format("{} adapters are", n)));
    join_ends(r);
    describe(r.facts);
    return std::move(r.facts);
}

} // namespace orrery::ingest

// The matrix of `nvidia-smi topo -m` (and of MetaX's mx-smi): what lies between any two GPUs and NICs. It states no rates.
#include "topology/ingest/formats.hpp"
#include "topology/ingest/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace orrery::ingest {

namespace {

using Kind = Part::Kind;

// Without the escape sequences that underline the header.
std::string plain(std::string_view text) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '\x1b' && i + 1 < text.size() && text[i + 1] == '[') {
            for (i += 2; i < text.size() && !(text[i] >= '@' && text[i] <= '~');) ++i;
            continue;
        }
        out += text[i];
    }
    return out;
}

bool is_gpu(std::string_view word) { return word.starts_with("GPU") && whole_number_of(word.substr(3)); }
bool is_nic(std::string_view word) { return (word.starts_with("NIC") && whole_number_of(word.substr(3))) || word.starts_with("mlx"); }

// The columns of the header that are GPUs or NICs: they come first, affinities behind.
std::vector<std::string> columns_of(std::string_view header) {
    std::vector<std::string> out;
    for (const std::string_view word : words_of(header)) {
        if (!is_gpu(word) && !is_nic(word)) break;
        out.emplace_back(word);
    }
    return out;
}

// Links of a cell: NV4 has four; MX (MetaX) one; 0 where PCIe is all there is; nothing where the cell is none of the known.
std::optional<int> links_of(std::string_view cell) {
    if (cell.starts_with("NV")) return whole_number_of(cell.substr(2));
    if (cell == "MX" || cell == "XGMI") return 1;
    for (const char* pcie : {"X", "PIX", "PXB", "PHB", "NODE", "SYS", "SOC", "NA"})
        if (cell == pcie) return 0;
    return std::nullopt;
}

struct Matrix {
    std::vector<std::string> columns;
    std::vector<int> lines;                      // of each row
    std::vector<std::vector<std::string>> cells; // rows in the order of columns
};

Matrix read_matrix(const InputFile& file, const std::vector<TextLine>& lines) {
    Matrix m;
    std::size_t at = 0;
    for (; at < lines.size() && m.columns.empty(); ++at) {
        const std::string header = plain(lines[at].text);
        const auto words = words_of(header);
        // A row begins with its own name and an X somewhere; the header holds names only.
        if (!words.empty() && is_gpu(words.front()) && std::find(words.begin(), words.end(), "X") == words.end())
            m.columns = columns_of(header);
    }
    if (m.columns.empty()) refuse(file, 0, "no header with GPU0: give the whole output of `nvidia-smi topo -m`");
    if (m.columns.size() > 4096) refuse(file, static_cast<int>(at), "more than 4096 columns: this is no output of `nvidia-smi topo -m`");
    for (; at < lines.size() && m.cells.size() < m.columns.size(); ++at) {
        const std::string row = plain(lines[at].text);
        const auto words = words_of(row);
        if (words.empty()) continue;
        const std::string& expected = m.columns[m.cells.size()];
        if (words.front() != expected)
            refuse(
                file, lines[at].number,
                fmt::format("expected the row of {}, found \"{}\": the table is cut off or out of order", expected, shown(words.front())));
        if (words.size() < m.columns.size() + 1)
            refuse(file, lines[at].number,
                   fmt::format("the row of {} has {} for {}", expected, counted(words.size() - 1, "cell"),
                               counted(m.columns.size(), "column")));
        auto& cells = m.cells.emplace_back();
        for (std::size_t c = 0; c < m.columns.size(); ++c) {
            if (!links_of(words[c + 1]))
                refuse(file, lines[at].number,
                       fmt::format("\"{}\" in the column of {} is no connection (X, NV18, PIX, PXB, PHB, NODE, SYS)", shown(words[c + 1]),
                                   m.columns[c]));
            cells.emplace_back(words[c + 1]);
        }
        if (cells[m.cells.size() - 1] != "X")
            refuse(file, lines[at].number, fmt::format("{} must have an X in its own column: the columns are shifted", expected));
        m.lines.push_back(lines[at].number);
    }
    if (m.cells.size() < m.columns.size())
        refuse(file, static_cast<int>(lines.size()),
               fmt::format("the row of {} is missing: the table is cut off", m.columns[m.cells.size()]));
    for (std::size_t i = 0; i < m.cells.size(); ++i)
        for (std::size_t j = 0; j < i; ++j)
            if (m.cells[i][j] != m.cells[j][i])
                refuse(file, m.lines[i],
                       fmt::format("{} to {} is {}, but {} to {} is {}: the table was edited", m.columns[i], m.columns[j], m.cells[i][j],
                                   m.columns[j], m.columns[i], m.cells[j][i]));
    return m;
}

// Groups of columns that these connections join, by union-find; the group of each column.
std::vector<int> groups(const Matrix& m, std::initializer_list<const char*> near) {
    std::vector<int> group(m.columns.size());
    std::iota(group.begin(), group.end(), 0);
    const auto root = [&](int i) {
        while (group[i] != i) i = group[i];
        return i;
    };
    for (std::size_t i = 0; i < m.cells.size(); ++i)
        for (std::size_t j = 0; j < i; ++j)
            if (std::any_of(near.begin(), near.end(), [&](const char* n) { return m.cells[i][j] == n; })) {
                const int a = root(static_cast<int>(i)), b = root(static_cast<int>(j));
                group[std::max(a, b)] = std::min(a, b);
            }
    for (std::size_t i = 0; i < group.size(); ++i) group[i] = root(static_cast<int>(i));
    return group;
}

// "  NIC0: mlx5_0" of the NIC legend.
std::map<std::string, std::string> legend_of(const std::vector<TextLine>& lines) {
    std::map<std::string, std::string> out;
    for (const TextLine& line : lines) {
        const std::string_view text = trimmed(line.text);
        const std::size_t colon = text.find(':');
        if (colon != std::string_view::npos && is_nic(text.substr(0, colon)))
            out[std::string(text.substr(0, colon))] = trimmed(text.substr(colon + 1));
    }
    return out;
}

} // namespace

NodeFacts read_nvidia_smi(const InputFile& file) {
    const auto lines = lines_of(file.text);
    const Matrix m = read_matrix(file, lines);
    const auto names = legend_of(lines);
    NodeFacts facts;
    facts.file = file.name, facts.format = "nvidia-smi topo -m", facts.links_stated = true;
    // NVLinks hide the PCIe connection of a pair, so sockets follow from what is left: a GPU and a NIC, or two NICs.
    const auto sockets = groups(m, {"PIX", "PXB", "PHB", "NODE"}), switches = groups(m, {"PIX", "PXB"});
    std::map<int, int> socket_part, switch_part, part_of;
    for (std::size_t i = 0; i < m.columns.size(); ++i) {
        const auto add = [&](Kind kind, std::string name, int parent) {
            Part part;
            part.kind = kind, part.name = std::move(name), part.parent = parent, part.line = m.lines[i];
            facts.parts.push_back(std::move(part));
            return static_cast<int>(facts.parts.size()) - 1;
        };
        const auto [socket, new_socket] = socket_part.try_emplace(sockets[i], 0);
        if (new_socket) socket->second = add(Kind::socket, fmt::format("numa{}", socket_part.size() - 1), -1);
        int parent = socket->second;
        if (std::count(switches.begin(), switches.end(), switches[i]) > 1) {
            const auto [bridge, new_bridge] = switch_part.try_emplace(switches[i], 0);
            if (new_bridge) bridge->second = add(Kind::bridge, fmt::format("pcie-switch{}", switch_part.size() - 1), parent);
            parent = bridge->second;
        }
        const bool gpu = is_gpu(m.columns[i]);
        const auto named = names.find(m.columns[i]);
        part_of[static_cast<int>(i)] = add(gpu ? Kind::gpu : Kind::nic, named == names.end() ? m.columns[i] : named->second, parent);
        ++facts.counts[gpu ? "gpu" : "nic"];
    }
    for (std::size_t i = 0; i < m.cells.size(); ++i)
        for (std::size_t j = 0; j < m.cells.size(); ++j)
            if (const int links = *links_of(m.cells[i][j]); links > 0) {
                facts.links.push_back({part_of[static_cast<int>(i)], part_of[static_cast<int>(j)], links});
                facts.link_kind = m.cells[i][j] == "MX" ? "metaxlink" : m.cells[i][j] == "XGMI" ? "xgmi" : "nvlink";
                ++facts.counts[m.cells[i][j]];
            }
    return facts;
}

} // namespace orrery::ingest

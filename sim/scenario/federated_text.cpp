// Tables of clients, and what cannot be of them.
#include "sim/scenario/csv.hpp"
#include "sim/scenario/input_file.hpp"
#include "sim/scenario/resolve.hpp"
#include "sim/scenario/suggest.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <sstream>

namespace orrery {
namespace {

constexpr std::size_t most_clients = 1'000'000;

struct ClientColumn {
    const char* name;
    double FederatedClient::*value;
    double least, most;
    bool needed;
};
constexpr ClientColumn client_columns[] = {{"slowness", &FederatedClient::slowness, 1e-3, 1e6, true},
                                           {"samples", &FederatedClient::samples, 1, 1e9, true},
                                           {"down_mbit_per_s", &FederatedClient::down_mbit_per_s, 1e-3, 1e6, false},
                                           {"up_mbit_per_s", &FederatedClient::up_mbit_per_s, 1e-3, 1e6, false},
                                           {"available", &FederatedClient::available, 1e-6, 1, false}};

// "" or why the line is no client. places: of each column in the line, -1 where the table has none.
std::string client_of(const std::vector<std::string>& cells, const std::vector<int>& places, FederatedClient& out) {
    for (std::size_t c = 0; c < std::size(client_columns); ++c) {
        const ClientColumn& column = client_columns[c];
        if (places[c] < 0) continue;
        if (static_cast<std::size_t>(places[c]) >= cells.size()) return "has too few columns";
        const std::string& cell = cells[places[c]];
        double x = 0;
        const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), x);
        if (error != std::errc() || end != cell.data() + cell.size() || !(x >= column.least && x <= column.most))
            return fmt::format("must have a {} from {:g} to {:g}", column.name, column.least, column.most);
        out.*column.value = x;
    }
    return "";
}

} // namespace

// Columns that are not there stay 0 until the other fields are read (check_federated).
void read_clients(Reading& reading, const Json& value, const std::string& where) {
    if (!value.is_string()) return reading.problem(where, dotted(where) + " = " + short_text(value) + " must be a file's path");
    Federated& f = *reading.scenario.federated;
    f.table_file = value.get<std::string>();
    if (!is_name(f.table_file)) return reading.problem(where, dotted(where) + " holds a control character");
    const std::filesystem::path path = std::filesystem::path(reading.options.base_dir) / f.table_file;
    const std::string is = dotted(where) + " = \"" + f.table_file + "\"";
    std::string text;
    if (!read_file(path.string(), text)) return reading.problem(where, is + " cannot be read");
    std::istringstream lines(text);
    std::string line;
    std::getline(lines, line);
    const std::vector<std::string> head = csv_cells(line);
    std::vector<int> places;
    for (const ClientColumn& column : client_columns) {
        const auto at = std::find(head.begin(), head.end(), column.name);
        places.push_back(at == head.end() ? -1 : static_cast<int>(at - head.begin()));
        if (column.needed && at == head.end())
            return reading.problem(where, is + " must begin with a line of column names, slowness and samples among them");
    }
    for (int n = 2; std::getline(lines, line); ++n) {
        if (line.empty() || line == "\r") continue;
        FederatedClient client{1, 0, 0, 0, 0};
        const std::string why = f.table.size() < most_clients ? client_of(csv_cells(line), places, client) : "is beyond 1000000 clients";
        if (!why.empty()) return reading.problem(where, is + ": line " + std::to_string(n) + " " + why);
        f.table.push_back(client);
    }
    if (f.table.empty()) reading.problem(where, is + " holds no client");
}

void check_federated(Reading& reading) {
    if (!reading.scenario.federated || !sound(reading, {"/federated"})) return;
    Federated& f = *reading.scenario.federated;
    for (FederatedClient& c : f.table) {
        if (c.down_mbit_per_s == 0) c.down_mbit_per_s = f.down_mbit_per_s;
        if (c.up_mbit_per_s == 0) c.up_mbit_per_s = f.up_mbit_per_s;
        if (c.available == 0) c.available = f.available;
    }
    const auto clients = static_cast<double>(f.table.empty() ? f.clients : static_cast<int>(f.table.size()));
    double there = 0;
    for (const FederatedClient& c : f.table) there += c.available;
    if (f.table.empty()) there = clients * f.available;
    const bool stream = f.aggregation == Aggregation::fedbuff;
    if (f.sampled > there)
        reading.problem(
            "/federated/sampled",
            fmt::format("federated.sampled = {} is more than the {:.4g} of {:.0f} clients that are there at a time: lower it, or "
                        "raise clients or available",
                        f.sampled, there, clients));
    if (stream && f.buffer > f.sampled)
        reading.problem("/federated/buffer",
                        fmt::format("federated.buffer = {} is more than the sampled = {} at work: lower it", f.buffer, f.sampled));
    if (reading.scenario.run) reading.problem("/federated", "federated and run are two kinds of training: leave one of them out");
    // The time of a simulation of all rounds: about 30 ns for a client of a round.
    const double answers = stream ? static_cast<double>(f.rounds) * f.buffer : static_cast<double>(f.rounds) * clients;
    if (answers * f.seeds > 1e10)
        reading.problem(
            "/federated/rounds",
            fmt::format("federated.rounds = {} of {:.0f} clients and {} seeds are more than are simulated here: lower rounds or seeds",
                        f.rounds, clients, f.seeds));
    const auto note = [&](const char* field, bool idle, const char* why) {
        if (idle && reading.has(std::string("/federated/") + field))
            reading.scenario.notes.push_back(std::string("federated.") + field + " has no effect: " + why);
    };
    for (const char* field : {"clients", "slowness_sigma", "samples", "samples_sigma", "link_sigma"})
        note(field, !f.table.empty(), "the table says who the clients are");
    for (const char* field : {"overcommit", "deadline_s"}) note(field, stream, "aggregation is fedbuff");
    for (const char* field : {"buffer", "staleness_exponent"}) note(field, !stream, "aggregation is fedavg");
}

} // namespace orrery

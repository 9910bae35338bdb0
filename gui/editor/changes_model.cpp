#include "gui/editor/changes_model.hpp"

#include <nlohmann/json.hpp>

#include <map>

namespace orrery {
namespace {

using Json = nlohmann::json;

// Leaves by pointer; a list is a leaf. "model": "name" and {"preset": "name", ..} are the same field.
void leaves(const Json& value, const std::string& pointer, std::map<std::string, std::string>& out) {
    if (value.is_object()) {
        for (const auto& [key, member] : value.items()) leaves(member, pointer + "/" + key, out);
    } else if (value.is_string() && (pointer == "/model" || pointer == "/cluster")) {
        out[pointer + "/preset"] = value.dump();
    } else {
        out[pointer] = value.dump(-1, ' ', false, Json::error_handler_t::replace);
    }
}

std::map<std::string, std::string> leaves_of(const std::string& text) {
    std::map<std::string, std::string> out;
    const Json json = Json::parse(text, nullptr, false, true);
    if (json.is_object()) leaves(json, "", out);
    return out;
}

} // namespace

std::vector<Change> changes_between(const std::string& before, const std::string& after) {
    const auto old = leaves_of(before), now = leaves_of(after);
    std::map<std::string, Change> changes;
    for (const auto& [pointer, value] : old)
        if (const auto it = now.find(pointer); it == now.end() || it->second != value)
            changes[pointer] = {pointer, value, it == now.end() ? "" : it->second};
    for (const auto& [pointer, value] : now)
        if (!old.contains(pointer)) changes[pointer] = {pointer, "", value};
    std::vector<Change> out;
    for (const auto& [pointer, change] : changes) out.push_back(change);
    return out;
}

void ChangesModel::setTexts(const std::string& before, const std::string& after) {
    beginResetModel();
    changes_ = before.empty() ? std::vector<Change>{} : changes_between(before, after);
    endResetModel();
}

int ChangesModel::rowCount(const QModelIndex& parent) const { return parent.isValid() ? 0 : static_cast<int>(changes_.size()); }

int ChangesModel::columnCount(const QModelIndex& parent) const { return parent.isValid() ? 0 : 3; }

QVariant ChangesModel::data(const QModelIndex& index, int role) const {
    if (!index.isValid() || (role != Qt::DisplayRole && role != Qt::ToolTipRole)) return {};
    const Change& c = change(index.row());
    const std::string& text = index.column() == 0 ? c.pointer : index.column() == 1 ? c.before : c.after;
    return text.empty() ? tr("left out") : QString::fromStdString(text);
}

QVariant ChangesModel::headerData(int section, Qt::Orientation orientation, int role) const {
    if (orientation != Qt::Horizontal || role != Qt::DisplayRole) return {};
    return section == 0 ? tr("Field") : section == 1 ? tr("Baseline") : tr("This run");
}

} // namespace orrery

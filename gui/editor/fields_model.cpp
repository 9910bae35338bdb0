#include "gui/editor/fields_model.hpp"

#include "gui/editor/scenario_document.hpp"

#include <nlohmann/json.hpp>

#include <QFont>
#include <QGuiApplication>
#include <QPalette>

#include <algorithm>

namespace orrery {
namespace {

// A value's JSON as a person reads it: texts without their quotes.
QString plain(const std::string& json) {
    const nlohmann::json value = nlohmann::json::parse(json, nullptr, false, true);
    if (value.is_string()) return QString::fromStdString(value.get<std::string>());
    return QString::fromStdString(json).simplified();
}

} // namespace

std::string json_of(const FieldSpec& spec, const QVariant& value) {
    if (value.userType() == QMetaType::Bool) return value.toBool() ? "true" : "false";
    const std::string text = value.toString().trimmed().toStdString();
    const bool bare = spec.type != FieldType::text && spec.type != FieldType::choice && spec.type != FieldType::preset;
    if (bare && !nlohmann::json::parse(text, nullptr, false).is_discarded()) return text;
    return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

FieldsModel::FieldsModel(QObject* parent) : QAbstractItemModel(parent), root_spec_(scenario_spec()), root_(nodes(root_spec_, nullptr, 0)) {}

void FieldsModel::setDocument(ScenarioDocument* document) {
    if (document_) document_->disconnect(this);
    document_ = document;
    if (document_) connect(document_, &ScenarioDocument::changed, this, &FieldsModel::refresh);
    refresh();
}

std::unique_ptr<FieldsModel::Node> FieldsModel::nodes(const FieldSpec& spec, Node* parent, int row) {
    auto node = std::make_unique<Node>(Node{&spec, parent, row, {}});
    for (const FieldSpec& child : spec.fields) node->children.push_back(nodes(child, node.get(), static_cast<int>(node->children.size())));
    return node;
}

FieldsModel::Node* FieldsModel::node(const QModelIndex& index) const {
    return index.isValid() ? static_cast<Node*>(index.internalPointer()) : root_.get();
}

const FieldSpec& FieldsModel::spec(const QModelIndex& index) const { return *node(index)->spec; }

QModelIndex FieldsModel::index(int row, int column, const QModelIndex& parent) const {
    if (!hasIndex(row, column, parent)) return {};
    return createIndex(row, column, node(parent)->children[row].get());
}

QModelIndex FieldsModel::parent(const QModelIndex& child) const {
    if (!child.isValid()) return {};
    Node* up = node(child)->parent;
    return !up || up == root_.get() ? QModelIndex{} : createIndex(up->row, 0, up);
}

int FieldsModel::rowCount(const QModelIndex& parent) const {
    return parent.column() > 0 ? 0 : static_cast<int>(node(parent)->children.size());
}

int FieldsModel::columnCount(const QModelIndex&) const { return ColumnCount; }

QModelIndex FieldsModel::indexOf(const std::string& pointer, int column) const {
    Node* at = root_.get();
    while (at->spec->pointer != pointer) {
        const auto next = std::find_if(at->children.begin(), at->children.end(), [&](const auto& child) {
            const std::string& p = child->spec->pointer;
            return pointer == p || pointer.starts_with(p + "/");
        });
        if (next == at->children.end()) break; // inside a field's value: that field
        at = next->get();
    }
    return at == root_.get() ? QModelIndex{} : createIndex(at->row, column, at);
}

void FieldsModel::refresh() {
    places_ = document_ ? json_places(document_->text()) : JsonPlaces{};
    problems_.clear();
    for (const Problem& p : document_ ? document_->parsed().problems : std::vector<Problem>{}) {
        const QModelIndex field = indexOf(p.where);
        if (field.isValid()) problems_.emplace(spec(field).pointer, p.what);
    }
    if (root_->children.empty()) return;
    // Values may change at any depth: every level is told.
    const auto tell = [this](const auto& self, const Node& at) -> void {
        if (at.children.empty()) return;
        Node *first = at.children.front().get(), *last = at.children.back().get();
        Q_EMIT dataChanged(createIndex(first->row, 0, first), createIndex(last->row, ColumnCount - 1, last));
        for (const auto& child : at.children) self(self, *child);
    };
    tell(tell, *root_);
}

QString FieldsModel::given(const FieldSpec& spec) const {
    auto it = places_.places.find(spec.pointer);
    if (it == places_.places.end()) return {};
    if (spec.type == FieldType::section) return {};
    if (spec.type == FieldType::preset && it->second.kind == '{') {
        const auto preset = places_.places.find(spec.pointer + "/preset");
        if (preset == places_.places.end()) return tr("inline");
        it = preset;
    }
    return plain(document_->text().substr(it->second.begin, it->second.end - it->second.begin));
}

// The parser notes what it filled in as "value: where it is from".
QString FieldsModel::fallback(const FieldSpec& spec) const {
    if (!document_ || !document_->parsed().scenario) return {};
    const auto& defaults = document_->parsed().scenario->defaults;
    const auto it = defaults.find(spec.pointer);
    return it == defaults.end() ? QString{} : QString::fromStdString(it->second);
}

QString FieldsModel::noted(const FieldSpec& spec) const {
    const QString text = fallback(spec);
    const qsizetype colon = text.indexOf(QLatin1String(": "));
    return colon < 0 ? QString{} : plain(text.left(colon).toStdString()); // without a colon: only where it is from
}

bool FieldsModel::usualHolds(const FieldSpec& spec) const {
    if (!document_) return false;
    const std::string& p = spec.pointer;
    for (std::size_t slash = p.find('/', 1); slash != std::string::npos; slash = p.find('/', slash + 1)) {
        const std::string above = p.substr(0, slash);
        const auto it = places_.places.find(above);
        const bool top = above.find('/', 1) == std::string::npos;
        if (it == places_.places.end() && top) return false; // the section is not there
        const FieldSpec& section = this->spec(indexOf(above));
        if (section.type != FieldType::preset) continue;
        if (it == places_.places.end() || it->second.kind != '{') return false; // a name
        if (places_.places.contains(above + "/preset") || places_.places.contains(above + "/hf_config")) return false;
    }
    return true;
}

std::vector<std::string> FieldsModel::problems(const FieldSpec& spec) const {
    std::vector<std::string> out;
    for (auto [it, end] = problems_.equal_range(spec.pointer); it != end; ++it) out.push_back(it->second);
    return out;
}

int FieldsModel::problemsInside(const FieldSpec& spec) const {
    return static_cast<int>(
        std::count_if(problems_.begin(), problems_.end(), [&](const auto& p) { return p.first.starts_with(spec.pointer + "/"); }));
}

QString FieldsModel::note(const FieldSpec& spec) const {
    if (const auto wrong = problems(spec); !wrong.empty()) return QString::fromStdString(wrong.front());
    if (const int inside = problemsInside(spec); inside > 0) return tr("%n problem(s) inside", "", inside);
    if (!given(spec).isEmpty()) return {};
    const QString text = fallback(spec);
    if (text.isEmpty() && usualHolds(spec) && !usual_is_value(spec))
        return spec.usual.empty() ? QString{} : tr("default: %1").arg(QString::fromStdString(spec.usual));
    const qsizetype colon = text.indexOf(QLatin1String(": "));
    return colon < 0 ? text : text.mid(colon + 2);
}

QVariant FieldsModel::valueData(const FieldSpec& spec, int role) const {
    const QString text = given(spec);
    if (role == Qt::EditRole) return edited(spec);
    if (role == Qt::DisplayRole) {
        if (!text.isEmpty()) return text;
        if (fallback(spec).isEmpty() && usualHolds(spec) && usual_is_value(spec)) return QString::fromStdString(spec.usual);
        return noted(spec);
    }
    if (!text.isEmpty()) return {};
    if (role == Qt::ForegroundRole) return QGuiApplication::palette().brush(QPalette::PlaceholderText);
    if (role != Qt::FontRole) return {};
    QFont font;
    font.setItalic(true);
    return font;
}

QVariant FieldsModel::edited(const FieldSpec& spec) const {
    QString text = given(spec);
    if (text.isEmpty()) text = noted(spec); // not the usual default: who chooses it wants it written
    if (spec.type == FieldType::boolean) return text == QLatin1String("true");
    return text;
}

QString FieldsModel::tip(const FieldSpec& field) const {
    QString tip = QString::fromStdString(field.help);
    for (const std::string& w : problems(field)) tip += QStringLiteral("\n\n") + QString::fromStdString(w);
    for (const auto& [pointer, what] : problems_)
        if (pointer.starts_with(field.pointer + "/")) tip += QStringLiteral("\n\n") + QString::fromStdString(what);
    const QString standing = !fallback(field).isEmpty() ? fallback(field) : QString::fromStdString(field.usual);
    if (!standing.isEmpty() && given(field).isEmpty()) tip += tr("\n\nDefault: %1").arg(standing);
    if (!field.example.empty()) tip += tr("\n\nExample: %1").arg(QString::fromStdString(field.example));
    return tip;
}

QVariant FieldsModel::data(const QModelIndex& index, int role) const {
    if (!index.isValid()) return {};
    const FieldSpec& field = spec(index);
    const std::vector<std::string> wrong = problems(field);
    const bool marked = !wrong.empty() || problemsInside(field) > 0;
    switch (role) {
    case PointerRole:
        return QString::fromStdString(field.pointer);
    case GivenRole:
        return !given(field).isEmpty();
    case ProblemRole:
        return wrong.empty() ? QVariant{} : QString::fromStdString(wrong.front());
    case ProblemsInsideRole:
        return problemsInside(field);
    case Qt::ToolTipRole:
        return tip(field);
    case Qt::AccessibleTextRole:
        return tr("%1: %2").arg(QString::fromStdString(field.key), valueData(field, Qt::DisplayRole).toString());
    default:
        break;
    }
    if (index.column() == ValueColumn) return valueData(field, role);
    if (role == Qt::ForegroundRole && index.column() == NoteColumn)
        return QGuiApplication::palette().brush(marked ? QPalette::LinkVisited : QPalette::PlaceholderText);
    if (role != Qt::DisplayRole) return {};
    if (index.column() == NoteColumn) return note(field);
    QString key = QString::fromStdString(field.key);
    return key.replace(QLatin1Char('_'), QLatin1Char(' ')) + (marked ? QStringLiteral("  \u26a0") : QString{});
}

QVariant FieldsModel::headerData(int section, Qt::Orientation orientation, int role) const {
    if (orientation != Qt::Horizontal || role != Qt::DisplayRole) return {};
    switch (section) {
    case FieldColumn:
        return tr("Field");
    case ValueColumn:
        return tr("Value");
    case NoteColumn:
        return tr("Source of the default, or what is wrong");
    default:
        return {};
    }
}

Qt::ItemFlags FieldsModel::flags(const QModelIndex& index) const {
    Qt::ItemFlags flags = QAbstractItemModel::flags(index);
    if (document_ && index.isValid() && index.column() == ValueColumn && spec(index).type != FieldType::section)
        flags |= Qt::ItemIsEditable;
    return flags;
}

bool FieldsModel::setData(const QModelIndex& index, const QVariant& value, int role) {
    if (role != Qt::EditRole || !document_ || !index.isValid() || index.column() != ValueColumn) return false;
    const FieldSpec& field = spec(index);
    if (value.toString().trimmed().isEmpty()) return reset(index);
    if (value == edited(field)) return false;
    std::string pointer = field.pointer;
    if (field.type == FieldType::preset) { // "model": "name", or its "preset" beside what overrides it
        const auto it = places_.places.find(pointer);
        if (it != places_.places.end() && it->second.kind == '{') pointer += "/preset";
    }
    return document_->setField(pointer, json_of(field, value), tr("%1 = %2").arg(QString::fromStdString(field.key), value.toString()),
                               edit_);
}

bool FieldsModel::reset(const QModelIndex& index) {
    if (!index.isValid()) return false;
    const FieldSpec& field = spec(index);
    if (!document_ || !places_.places.contains(field.pointer)) return false;
    return document_->resetField(field.pointer, tr("%1 left out").arg(QString::fromStdString(field.key)), edit_);
}

} // namespace orrery

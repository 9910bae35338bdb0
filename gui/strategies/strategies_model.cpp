#include "gui/strategies/strategies_model.hpp"

#include "gui/core/as_table.hpp"
#include "gui/core/categories.hpp"

#include <QFont>
#include <QGuiApplication>
#include <QLocale>
#include <QPalette>
#include <QRegularExpression>

#include <algorithm>
#include <cmath>

namespace orrery {
namespace {

std::optional<Category> category_of(int column) {
    switch (column) {
    case StrategiesModel::TensorColumn:
        return Category::exposed_tp;
    case StrategiesModel::ContextColumn:
        return Category::exposed_cp;
    case StrategiesModel::ExpertColumn:
        return Category::exposed_ep;
    case StrategiesModel::PipelineColumn:
        return Category::exposed_pp;
    case StrategiesModel::DataColumn:
        return Category::exposed_dp;
    default:
        return std::nullopt;
    }
}

} // namespace

StrategiesModel::StrategiesModel(RunStore& store, ViewState& state, QObject* parent)
    : QAbstractTableModel(parent), store_(store), state_(state) {
    for (const Run& run : store_.runs()) {
        ids_.push_back(run.id);
        figures_.push_back(figures(*run.data));
    }
    connect(&store_, &RunStore::runAdded, this, [this](RunId id) {
        const int row = static_cast<int>(ids_.size());
        beginInsertRows({}, row, row);
        ids_.push_back(id);
        const Run* run = store_.find(id);
        figures_.push_back(run ? figures(*run->data) : Figures{});
        endInsertRows();
    });
    connect(&store_, &RunStore::runChanged, this, [this](RunId id) { refresh(rowOf(id)); });
    connect(&store_, &RunStore::runAboutToBeRemoved, this, [this](RunId id) {
        const int row = rowOf(id);
        if (row < 0) return;
        beginRemoveRows({}, row, row);
        ids_.erase(ids_.begin() + row);
        figures_.erase(figures_.begin() + row);
        endRemoveRows();
    });
    connect(&state_, &ViewState::baselineChanged, this, [this] {
        if (!ids_.empty()) Q_EMIT dataChanged(index(0, 0), index(rowCount() - 1, ColumnCount - 1));
    });
}

const SweptPoint* StrategiesModel::sweptAt(int row) const { return row >= runs() && row < rowCount() ? &swept_[row - runs()] : nullptr; }

const Figures& StrategiesModel::figuresAt(int row) const {
    const SweptPoint* swept = sweptAt(row);
    return swept ? swept->figures : figures_[row];
}

RunId StrategiesModel::runAt(int row) const {
    if (const SweptPoint* swept = sweptAt(row)) return id_of_swept(swept->number);
    return row >= 0 && row < runs() ? ids_[row] : 0;
}

int StrategiesModel::rowOf(RunId id) const {
    if (id < 0) {
        const auto it = std::find_if(swept_.begin(), swept_.end(), [&](const SweptPoint& p) { return id_of_swept(p.number) == id; });
        return it == swept_.end() ? -1 : runs() + static_cast<int>(it - swept_.begin());
    }
    const auto it = std::find(ids_.begin(), ids_.end(), id);
    return it == ids_.end() ? -1 : static_cast<int>(it - ids_.begin());
}

// Rows that stay keep their place: a choice in the table outlives the next batch of points.
void StrategiesModel::setSwept(const std::vector<SweptPoint>& swept) {
    const double before = longest();
    const auto same = [](const SweptPoint& a, const SweptPoint& b) { return a.number == b.number && a.name == b.name; };
    const auto wanted = [&](const SweptPoint& p) {
        const bool a_run = std::any_of(store_.runs().begin(), store_.runs().end(), [&](const Run& r) { return r.name == p.name; });
        return !a_run && std::any_of(swept.begin(), swept.end(), [&](const SweptPoint& q) { return same(p, q); });
    };
    for (int i = static_cast<int>(swept_.size()) - 1; i >= 0; --i) {
        if (wanted(swept_[i])) continue;
        beginRemoveRows({}, runs() + i, runs() + i);
        swept_.erase(swept_.begin() + i);
        endRemoveRows();
    }
    for (std::size_t i = 0; i < swept_.size(); ++i) { // a search's notes change as it finds better ones
        const auto it = std::ranges::find_if(swept, [&](const SweptPoint& q) { return same(swept_[i], q); });
        if (it->figures.note == swept_[i].figures.note) continue;
        swept_[i].figures = it->figures;
        Q_EMIT dataChanged(index(runs() + static_cast<int>(i), 0), index(runs() + static_cast<int>(i), ColumnCount - 1));
    }
    std::vector<SweptPoint> fresh;
    for (const SweptPoint& p : swept)
        if (wanted(p) && std::none_of(swept_.begin(), swept_.end(), [&](const SweptPoint& q) { return same(p, q); })) fresh.push_back(p);
    if (!fresh.empty()) {
        beginInsertRows({}, rowCount(), rowCount() + static_cast<int>(fresh.size()) - 1);
        swept_.insert(swept_.end(), fresh.begin(), fresh.end());
        endInsertRows();
    }
    if (longest() != before && rowCount() > 0) Q_EMIT dataChanged(index(0, BreakdownColumn), index(rowCount() - 1, BreakdownColumn));
}

// The longest step is the scale of every row's bar: where it moves, all of them do.
void StrategiesModel::refresh(int row) {
    const Run* run = store_.find(runAt(row));
    if (!run) return;
    const double before = longest();
    figures_[row] = figures(*run->data);
    const bool all = longest() != before || run->id == state_.baseline();
    Q_EMIT dataChanged(index(all ? 0 : row, 0), index(all ? rowCount() - 1 : row, ColumnCount - 1));
}

double StrategiesModel::longest() const {
    double full = 0;
    for (const Figures& f : figures_) full = std::max(full, f.step_s.value_or(0));
    for (const SweptPoint& p : swept_) full = std::max(full, p.figures.step_s.value_or(0));
    return full;
}

std::optional<double> StrategiesModel::delta(int row) const {
    const int base = rowOf(state_.baseline());
    if (base < 0 || base == row) return std::nullopt;
    const auto mine = figuresAt(row).step_s, its = figuresAt(base).step_s;
    if (!mine || !its || *its <= 0) return std::nullopt;
    return *mine / *its - 1;
}

std::optional<double> StrategiesModel::number(int row, int column) const {
    const Figures& f = figuresAt(row);
    if (const auto c = category_of(column)) return f.exposed(*c);
    switch (column) {
    case StepColumn:
    case BreakdownColumn:
        return f.step_s;
    case DeltaColumn:
        return delta(row);
    case TokensColumn:
        return f.tokens_per_s;
    case MfuColumn:
        return f.mfu;
    case BubbleColumn:
        return f.bubble;
    case StragglersColumn:
        return f.stragglers;
    case PeakColumn:
        return f.peak_bytes;
    case HeadroomColumn:
        return f.headroom_bytes();
    case FitsColumn: // nothing is known of the scenario as it stands
        return f.fits && !outOfDate(row) ? std::optional<double>(*f.fits ? 1 : 0) : std::nullopt;
    case CostColumn:
        return f.cost_usd;
    case IntervalColumn:
        return f.interval.known() ? std::optional<double>((f.interval.faster + f.interval.slower) / 2) : std::nullopt;
    case DevicesColumn:
        return f.devices;
    default:
        return std::nullopt;
    }
}

QString StrategiesModel::text(int row, int column) const {
    const Run* run = store_.find(runAt(row));
    const auto value = number(row, column);
    switch (column) {
    case NameColumn: {
        if (const SweptPoint* swept = sweptAt(row)) return swept->name;
        if (!run) return {};
        return (run->id == state_.baseline() ? QStringLiteral("\u2691 ") : QString{}) + shown_name(*run);
    }
    case StepColumn:
        return seconds_words(value);
    case DeltaColumn: {
        if (runAt(row) == state_.baseline() && rowOf(state_.baseline()) >= 0) return tr("baseline");
        return value ? (*value >= 0 ? QStringLiteral("+") : QString{}) + percent_words(value) : QString{};
    }
    case BreakdownColumn:
        return {};
    case NoteColumn:
        return figuresAt(row).note;
    case IntervalColumn:
        return interval_words(figuresAt(row).interval);
    case PeakColumn:
    case HeadroomColumn:
        return gigabytes_words(value);
    case FitsColumn:
        if (!figuresAt(row).fits || outOfDate(row)) return fitsText(row);
        return (*figuresAt(row).fits ? QStringLiteral("\u2713 ") : QStringLiteral("\u2717 ")) + fitsText(row);
    case CostColumn:
        return value ? QStringLiteral("$") + QLocale().toString(*value, 'f', *value < 10 ? 2 : 0) : seconds_words({});
    case TokensColumn:
    case DevicesColumn:
        return count_words(value);
    default:
        return percent_words(value);
    }
}

bool StrategiesModel::outOfDate(int row) const {
    const Run* run = store_.find(runAt(row));
    return run && run->out_of_date;
}

QString StrategiesModel::fitsText(int row) const {
    const Figures& f = figuresAt(row);
    if (!f.fits) return {};
    if (outOfDate(row)) return tr("out of date");
    if (f.narrow) return *f.fits ? tr("fits, narrowly") : tr("too big, narrowly");
    return *f.fits ? tr("fits") : tr("too big");
}

QVariant StrategiesModel::exportedAt(int row, int column) const {
    switch (column) {
    case NameColumn:
    case NoteColumn:
        return text(row, column);
    case FitsColumn:
        return fitsText(row);
    case BreakdownColumn:
        return QString();
    case StepColumn:
    case PeakColumn:
    case HeadroomColumn:
    case CostColumn:
    case TokensColumn:
    case DevicesColumn:
        return exported(number(row, column));
    default:
        return exported(number(row, column), 0.01);
    }
}

QString StrategiesModel::tip(int row, int column) const {
    const Figures& f = figuresAt(row);
    if (outOfDate(row)) return out_of_date_words();
    if (column == BreakdownColumn) return f.breakdown ? breakdown_text(*f.breakdown) : QString{};
    if (column == FitsColumn || column == HeadroomColumn) return f.why_not;
    if (column == NoteColumn) return f.note;
    if (column != NameColumn) return {};
    if (sweptAt(row)) return sweptAt(row)->name + QLatin1Char('\n') + tr("From the sweep: Enter or a double click simulates it in full");
    const Run* run = store_.find(runAt(row));
    if (!run) return {};
    return run->data->problems.empty() ? run->path : QString::fromStdString(to_text(run->data->problems));
}

int StrategiesModel::rowCount(const QModelIndex& parent) const { return parent.isValid() ? 0 : runs() + static_cast<int>(swept_.size()); }

int StrategiesModel::columnCount(const QModelIndex& parent) const { return parent.isValid() ? 0 : ColumnCount; }

QVariant StrategiesModel::data(const QModelIndex& index, int role) const {
    if (!index.isValid()) return {};
    const int row = index.row(), column = index.column();
    const Figures& f = figuresAt(row);
    switch (role) {
    case Qt::DisplayRole:
        return text(row, column);
    case export_role:
        return exportedAt(row, column);
    case Qt::EditRole: {
        const Run* run = store_.find(runAt(row));
        return column == NameColumn && run ? QVariant(run->name) : QVariant(text(row, column));
    }
    case Qt::ToolTipRole:
        return tip(row, column);
    case Qt::AccessibleTextRole:
        return column == BreakdownColumn ? tip(row, column) : text(row, column);
    case Qt::TextAlignmentRole:
        return QVariant::fromValue(Qt::Alignment(
            (column == NameColumn || column == FitsColumn || column == NoteColumn ? Qt::AlignLeft : Qt::AlignRight) | Qt::AlignVCenter));
    case RunRole:
        return runAt(row);
    case BreakdownRole:
        return f.breakdown ? QVariant::fromValue(*f.breakdown) : QVariant{};
    case FullRole:
        return longest();
    case SortRole: {
        if (column == NameColumn || column == NoteColumn) return text(row, column);
        const auto value = number(row, column);
        return value ? QVariant(*value) : QVariant{};
    }
    case Qt::ForegroundRole:
        if ((f.fits && !*f.fits) || outOfDate(row)) return QGuiApplication::palette().brush(QPalette::PlaceholderText);
        return {};
    case Qt::FontRole: {
        const bool italic = sweptAt(row) || outOfDate(row), bold = runAt(row) == state_.baseline();
        if (!italic && !bold) return {};
        QFont font;
        font.setBold(bold);
        font.setItalic(italic);
        return font;
    }
    default:
        return {};
    }
}

QVariant StrategiesModel::headerData(int section, Qt::Orientation orientation, int role) const {
    if (orientation != Qt::Horizontal) return {};
    struct Head {
        QString text, tip, unit{};
    };
    const auto head = [section]() -> Head {
        switch (section) {
        case NameColumn:
            return {tr("Run"), tr("Double-click to rename")};
        case StepColumn:
            return {tr("Step"), tr("Steady time of one optimizer step"), QStringLiteral("s")};
        case IntervalColumn:
            return {tr("Within"), tr("Four of five measured steps lie in this interval around the predicted one"), QStringLiteral("%")};
        case NoteColumn:
            return {tr("Behind the best"), tr("Of what \"Find the best\" has found: the number that decides")};
        case DeltaColumn:
            return {tr("Against baseline"), tr("Step time against the pinned run's"), QStringLiteral("%")};
        case BreakdownColumn:
            return {tr("Where the step's time goes"), tr("Mean over all devices; all rows on one scale")};
        case TokensColumn:
            return {tr("Tokens/s"), tr("All devices together")};
        case MfuColumn:
            return {tr("MFU"), tr("Model FLOPs over the devices' dense peak, no recompute"), QStringLiteral("%")};
        case BubbleColumn:
            return {tr("Bubble"), tr("Share of the step in which devices wait for other stages of the pipeline"), QStringLiteral("%")};
        case StragglersColumn:
            return {tr("Stragglers"), tr("Share of the step in which devices wait for slower ones of their own stage"),
                    QStringLiteral("%")};
        case TensorColumn:
            return {tr("Tensor"), tr("Exposed tensor-parallel communication, share of the step"), QStringLiteral("%")};
        case ContextColumn:
            return {tr("Context"), tr("Exposed context-parallel communication, share of the step"), QStringLiteral("%")};
        case ExpertColumn:
            return {tr("Expert"), tr("Exposed expert-parallel communication, share of the step"), QStringLiteral("%")};
        case PipelineColumn:
            return {tr("Pipeline"), tr("Exposed transfers between stages, share of the step"), QStringLiteral("%")};
        case DataColumn:
            return {tr("Data"), tr("Exposed data-parallel communication, share of the step"), QStringLiteral("%")};
        case PeakColumn:
            return {tr("Peak memory"), tr("The fullest stage's; 1 GB = 1e9 bytes"), tr("bytes")};
        case HeadroomColumn:
            return {tr("Headroom"), tr("Capacity less the peak; negative: does not fit"), tr("bytes")};
        case FitsColumn:
            return {tr("Fits"), tr("Whether the fullest stage fits in device memory")};
        case CostColumn:
            return {tr("Cost of a step"), tr("Known where the cluster gives a price of its devices"), QStringLiteral("$")};
        case DevicesColumn:
            return {tr("Devices"), {}};
        default:
            return {};
        }
    }();
    if (role == Qt::DisplayRole) return head.text;
    if (role == export_role) return head.unit.isEmpty() ? head.text : with_unit(head.text, head.unit);
    return role == Qt::ToolTipRole ? QVariant(head.tip) : QVariant{};
}

Qt::ItemFlags StrategiesModel::flags(const QModelIndex& index) const {
    Qt::ItemFlags flags = QAbstractTableModel::flags(index);
    if (index.isValid() && index.column() == NameColumn && !sweptAt(index.row())) flags |= Qt::ItemIsEditable;
    return flags;
}

bool StrategiesModel::setData(const QModelIndex& index, const QVariant& value, int role) {
    const QString name = value.toString().trimmed();
    if (role != Qt::EditRole || !index.isValid() || index.column() != NameColumn || name.isEmpty() || sweptAt(index.row())) return false;
    store_.rename(runAt(index.row()), name);
    return true;
}

StrategiesProxy::StrategiesProxy(QObject* parent) : QSortFilterProxyModel(parent) {
    setSortRole(StrategiesModel::SortRole);
    setDynamicSortFilter(true);
}

void StrategiesProxy::setFilter(const QString& text) {
    terms_ = text.split(QRegularExpression(QStringLiteral("\\s+")), Qt::SkipEmptyParts);
    invalidateFilter();
}

bool StrategiesProxy::filterAcceptsRow(int row, const QModelIndex& parent) const {
    struct Key {
        const char* name;
        int column;
        double unit;
    };
    static constexpr Key keys[] = {
        {"step", StrategiesModel::StepColumn, 1},           {"mfu", StrategiesModel::MfuColumn, 0.01},
        {"bubble", StrategiesModel::BubbleColumn, 0.01},    {"memory", StrategiesModel::PeakColumn, 1e9},
        {"devices", StrategiesModel::DevicesColumn, 1},     {"cost", StrategiesModel::CostColumn, 1},
        {"headroom", StrategiesModel::HeadroomColumn, 1e9}, {"stragglers", StrategiesModel::StragglersColumn, 0.01}};
    static const QRegularExpression comparison(QStringLiteral("^([a-z]+)(<=|>=|<|>)(-?[0-9.]+)$"));
    const QAbstractItemModel& m = *sourceModel();
    return std::all_of(terms_.begin(), terms_.end(), [&](const QString& term) {
        if (term == QLatin1String("fits"))
            return m.index(row, StrategiesModel::FitsColumn, parent).data(StrategiesModel::SortRole).toDouble() > 0;
        if (const auto match = comparison.match(term); match.hasMatch()) {
            for (const Key& key : keys) {
                if (match.captured(1) != QLatin1String(key.name)) continue;
                const QVariant value = m.index(row, key.column, parent).data(StrategiesModel::SortRole);
                if (!value.isValid()) return false;
                const double v = value.toDouble(), limit = match.captured(3).toDouble() * key.unit;
                const QString op = match.captured(2);
                return op == QLatin1String("<")    ? v < limit
                       : op == QLatin1String(">")  ? v > limit
                       : op == QLatin1String("<=") ? v <= limit
                                                   : v >= limit;
            }
        }
        return m.index(row, StrategiesModel::NameColumn, parent).data().toString().contains(term, Qt::CaseInsensitive);
    });
}

// A run without a figure goes to the end of a rising order.
bool StrategiesProxy::lessThan(const QModelIndex& left, const QModelIndex& right) const {
    const QVariant a = left.data(sortRole()), b = right.data(sortRole());
    if (!a.isValid() || !b.isValid()) return a.isValid() && !b.isValid();
    if (a.userType() == QMetaType::QString) return QString::localeAwareCompare(a.toString(), b.toString()) < 0;
    return a.toDouble() < b.toDouble();
}

} // namespace orrery

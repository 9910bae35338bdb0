#include "gui/sweep/sweep_model.hpp"

#include "gui/core/as_table.hpp"
#include "gui/core/figures.hpp"

#include <algorithm>

namespace orrery {
namespace {

// A point's number is its values' places, the last axis fastest.
std::size_t place_on(const SweepDocument& document, std::size_t point, std::size_t axis) {
    const auto& axes = document.axes();
    for (std::size_t a = axes.size() - 1; a > axis; --a) point /= axes[a].values.size();
    return point % axes[axis].values.size();
}

bool better(double a, double b, HeatMetric metric) { return smaller_is_better(metric) ? a < b : a > b; }

} // namespace

QString axis_title(const SweepAxis& axis) {
    return QString::fromStdString(axis.pointer).section(QLatin1Char('/'), -1).replace(QLatin1Char('_'), QLatin1Char(' '));
}

QString status_words(const SweepRow& r) {
    switch (r.status) {
    case PointStatus::fits:
        return r.narrow() ? SweepModel::tr("fits, narrowly") : SweepModel::tr("fits");
    case PointStatus::too_big:
        return r.narrow() ? SweepModel::tr("too big, narrowly") : SweepModel::tr("too big");
    case PointStatus::impossible:
        return SweepModel::tr("impossible");
    case PointStatus::failed:
        return SweepModel::tr("failed");
    }
    return {};
}

QString value_words(const std::string& json) {
    const QString text = QString::fromStdString(json);
    return text.size() > 1 && text.startsWith(QLatin1Char('"')) ? text.mid(1, text.size() - 2) : text;
}

void SweepModel::setDocument(std::shared_ptr<const SweepDocument> document) {
    beginResetModel();
    document_ = std::move(document);
    rows_.assign(document_ ? static_cast<std::size_t>(document_->size()) : 0, std::nullopt);
    endResetModel();
}

void SweepModel::take(const std::vector<SweepRow>& rows) {
    int first = rowCount(), last = -1;
    for (const SweepRow& row : rows) {
        if (row.index < 0 || row.index >= rowCount()) continue;
        rows_[row.index] = row;
        first = std::min(first, static_cast<int>(row.index));
        last = std::max(last, static_cast<int>(row.index));
    }
    if (last >= 0) Q_EMIT dataChanged(index(first, 0), index(last, columnCount() - 1));
}

const SweepRow* SweepModel::row(std::size_t point) const { return point < rows_.size() && rows_[point] ? &*rows_[point] : nullptr; }

int SweepModel::rowCount(const QModelIndex& parent) const { return parent.isValid() ? 0 : static_cast<int>(rows_.size()); }

int SweepModel::columnCount(const QModelIndex& parent) const { return parent.isValid() || !document_ ? 0 : axes() + FigureCount; }

QVariant SweepModel::figure(const SweepRow& r, int figure, bool sort) const {
    const bool fits = r.status == PointStatus::fits;
    switch (figure) {
    case StatusFigure:
        return sort ? QVariant(2 * static_cast<int>(r.status) + (r.narrow() ? 1 : 0))
                    : QVariant((fits ? QStringLiteral("\u2713 ") : QStringLiteral("\u2717 ")) + status_words(r));
    case StepFigure:
        return !fits ? QVariant{} : sort ? QVariant(r.step_time_s) : QVariant(step_words(r.step_time_s, r.step_time_interval));
    case TokensFigure:
        return !fits ? QVariant{} : sort ? QVariant(r.tokens_per_s) : QVariant(count_words(r.tokens_per_s));
    case MfuFigure:
        return !fits ? QVariant{} : sort ? QVariant(r.mfu) : QVariant(percent_words(r.mfu));
    case BubbleFigure:
        return !fits ? QVariant{} : sort ? QVariant(r.bubble_fraction) : QVariant(percent_words(r.bubble_fraction));
    case StragglersFigure:
        return !fits || r.straggler_fraction < 0 ? QVariant{}
               : sort                            ? QVariant(r.straggler_fraction)
                                                 : QVariant(percent_words(r.straggler_fraction));
    case PeakFigure:
        return r.peak_bytes == 0 ? QVariant{}
               : sort            ? QVariant(static_cast<double>(r.peak_bytes))
                                 : QVariant(gigabytes_words(static_cast<double>(r.peak_bytes)));
    case ReasonFigure:
        return QString::fromStdString(r.reason);
    default:
        return {};
    }
}

QVariant SweepModel::exportedFigure(const SweepRow& r, int f) const {
    if (f == StatusFigure) return status_words(r);
    const QVariant value = figure(r, f, true);
    if (!value.isValid()) return QString();
    return f == MfuFigure || f == BubbleFigure || f == StragglersFigure ? QVariant(value.toDouble() * 100) : value;
}

QVariant SweepModel::data(const QModelIndex& index, int role) const {
    if (!index.isValid()) return {};
    const auto point = static_cast<std::size_t>(index.row());
    if (role == PointRole) return index.row();
    const bool sort = role == SortRole;
    if (role == Qt::ToolTipRole) return row(point) ? QString::fromStdString(row(point)->reason) : QString{};
    if (role == export_role && index.column() >= axes())
        return row(point) ? exportedFigure(*row(point), index.column() - axes()) : QVariant(QString());
    if (role != Qt::DisplayRole && !sort) return {};
    if (index.column() < axes()) {
        const auto axis = static_cast<std::size_t>(index.column());
        const std::size_t place = place_on(*document_, point, axis);
        return sort ? QVariant(static_cast<int>(place)) : QVariant(value_words(document_->axes()[axis].values[place]));
    }
    return row(point) ? figure(*row(point), index.column() - axes(), sort) : QVariant{};
}

QVariant SweepModel::headerData(int section, Qt::Orientation orientation, int role) const {
    if (role == export_role && orientation == Qt::Horizontal && document_) {
        const QString title = headerData(section, orientation).toString();
        switch (section - axes()) {
        case StepFigure:
            return with_unit(title, QStringLiteral("s"));
        case MfuFigure:
        case BubbleFigure:
        case StragglersFigure:
            return with_unit(title, QStringLiteral("%"));
        case PeakFigure:
            return with_unit(title, tr("bytes"));
        default:
            return title;
        }
    }
    if (orientation != Qt::Horizontal || role != Qt::DisplayRole || !document_) return {};
    if (section < axes()) return axis_title(document_->axes()[section]);
    switch (section - axes()) {
    case StatusFigure:
        return tr("Fits");
    case StepFigure:
        return tr("Step");
    case TokensFigure:
        return tr("Tokens/s");
    case MfuFigure:
        return tr("MFU");
    case BubbleFigure:
        return tr("Bubble");
    case StragglersFigure:
        return tr("Stragglers");
    case PeakFigure:
        return tr("Peak memory");
    case ReasonFigure:
        return tr("Reason");
    default:
        return {};
    }
}

bool smaller_is_better(HeatMetric m) { return m != HeatMetric::tokens_per_s && m != HeatMetric::mfu; }

double value_of(const SweepRow& row, HeatMetric metric) {
    switch (metric) {
    case HeatMetric::step_time:
        return row.step_time_s;
    case HeatMetric::tokens_per_s:
        return row.tokens_per_s;
    case HeatMetric::mfu:
        return row.mfu;
    case HeatMetric::bubble:
        return row.bubble_fraction;
    case HeatMetric::stragglers:
        return std::max(0.0, row.straggler_fraction);
    case HeatMetric::peak_memory:
        return static_cast<double>(row.peak_bytes);
    }
    return 0;
}

HeatMap heat_map(const SweepModel& model, int x_axis, int y_axis, HeatMetric metric) {
    HeatMap map;
    if (!model.document() || x_axis < 0 || x_axis >= model.axes()) return map;
    const SweepDocument& document = *model.document();
    const auto x = static_cast<std::size_t>(x_axis), y = static_cast<std::size_t>(std::max(0, y_axis));
    const bool flat = y_axis < 0 || y_axis == x_axis || y_axis >= model.axes();
    map.columns = document.axes()[x].values;
    map.rows = flat ? std::vector<std::string>{""} : document.axes()[y].values;
    map.cells.resize(map.columns.size() * map.rows.size());
    for (std::size_t point = 0; point < static_cast<std::size_t>(document.size()); ++point) {
        HeatCell& cell = map.cells[(flat ? 0 : place_on(document, point, y)) * map.columns.size() + place_on(document, point, x)];
        ++cell.points;
        const SweepRow* row = model.row(point);
        if (!row) continue;
        ++cell.computed;
        if (row->status != PointStatus::fits) {
            if (cell.point < 0) cell.point = static_cast<std::int64_t>(point);
        } else if (const double v = value_of(*row, metric); !cell.value || better(v, *cell.value, metric)) {
            cell.value = v;
            cell.point = static_cast<std::int64_t>(point);
        }
    }
    bool any = false;
    for (const HeatCell& cell : map.cells) {
        if (!cell.value) continue;
        map.low = any ? std::min(map.low, *cell.value) : *cell.value;
        map.high = any ? std::max(map.high, *cell.value) : *cell.value;
        any = true;
    }
    return map;
}

} // namespace orrery

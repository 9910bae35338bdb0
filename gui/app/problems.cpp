#include "gui/app/problems.hpp"

#include "gui/parts/plain_table.hpp"

#include <QHeaderView>
#include <QTableView>
#include <QVBoxLayout>

#include <algorithm>

namespace orrery {

constexpr std::size_t kept = 500;

void ProblemsModel::add(const ProblemEntry& entry) {
    if (entries_.size() == kept) {
        beginRemoveRows({}, 0, 0);
        entries_.erase(entries_.begin());
        endRemoveRows();
    }
    const int row = static_cast<int>(entries_.size());
    beginInsertRows({}, row, row);
    entries_.push_back(entry);
    endInsertRows();
}

void ProblemsModel::replace(const QString& source, const std::vector<ProblemEntry>& entries) {
    const auto said = [&](const ProblemEntry& e) { return e.source == source; };
    if (entries.empty() && std::none_of(entries_.begin(), entries_.end(), said)) return;
    beginResetModel();
    std::erase_if(entries_, said);
    entries_.insert(entries_.begin(), entries.begin(), entries.end());
    if (entries_.size() > kept) entries_.resize(kept);
    endResetModel();
}

void ProblemsModel::clear() {
    beginResetModel();
    entries_.clear();
    endResetModel();
}

int ProblemsModel::rowCount(const QModelIndex& parent) const { return parent.isValid() ? 0 : static_cast<int>(entries_.size()); }

int ProblemsModel::columnCount(const QModelIndex& parent) const { return parent.isValid() ? 0 : ColumnCount; }

QVariant ProblemsModel::data(const QModelIndex& index, int role) const {
    if (!index.isValid()) return {};
    const ProblemEntry& e = entry(index.row());
    if (role == Qt::ToolTipRole) return e.what;
    if (role != Qt::DisplayRole) return {};
    return index.column() == SourceColumn ? e.source : index.column() == WhereColumn ? e.where : e.what;
}

QVariant ProblemsModel::headerData(int section, Qt::Orientation orientation, int role) const {
    if (orientation != Qt::Horizontal || role != Qt::DisplayRole) return {};
    return section == SourceColumn ? tr("Source") : section == WhereColumn ? tr("Where") : tr("Problem");
}

ProblemsView::ProblemsView(ProblemsModel& model, QWidget* parent) : QWidget(parent), table_(new QTableView) {
    table_->setModel(&model);
    table_->setSelectionBehavior(QAbstractItemView::SelectRows);
    table_->setSelectionMode(QAbstractItemView::SingleSelection);
    table_->setEditTriggers(QAbstractItemView::NoEditTriggers);
    table_->setTabKeyNavigation(false);
    table_->verticalHeader()->hide();
    table_->horizontalHeader()->setStretchLastSection(true);
    table_->setColumnWidth(ProblemsModel::SourceColumn, 120);
    table_->setColumnWidth(ProblemsModel::WhereColumn, 230);
    table_->setWordWrap(true);
    table_->setAccessibleName(tr("Problems"));
    copies_rows(*table_);
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->addWidget(table_);
    const auto go = [this, &model](const QModelIndex& index) {
        if (index.isValid()) Q_EMIT jump(model.entry(index.row()).source, model.entry(index.row()).where);
    };
    connect(table_, &QTableView::activated, this, go);
    connect(table_, &QTableView::clicked, this, go);
    const auto fit = [this] { table_->resizeRowsToContents(); };
    connect(&model, &QAbstractItemModel::modelReset, this, fit);
    connect(&model, &QAbstractItemModel::rowsInserted, this, fit);
}

} // namespace orrery
